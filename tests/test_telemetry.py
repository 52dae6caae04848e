"""Nothing that Dovetail runs leaves an identifier of the machine behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_SESSION = """
import dovetail, onnxruntime
from onnx import TensorProto, helper
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
"""


def test_onnx_runtime_keeps_no_identifier_of_the_machine(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    kept = {name: value for name, value in kept.items() if not name.startswith("XDG_")}
    subprocess.run([sys.executable, "-c", _SESSION], env={**kept, "HOME": str(tmp_path)}, check=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_who_wants_its_telemetry_keeps_it() -> None:
    line = "import dovetail, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    said = subprocess.run(
        [sys.executable, "-c", line],
        env={**os.environ, "ORT_DISABLE_TELEMETRY": "0"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout == "0\n"
