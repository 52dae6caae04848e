"""Arrays that OpenVINO cannot take as they are live as long as it reads them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import backend, find_target
from dovetail.ir import AnyArray, parse_graph
from dovetail.testing.agreement import load_on

GRAPH = """graph "g" opset 21
input "x": f32[1, 4096]
input "y": f32[1, 4096]
input "z": f32[1, 4096]
"a" = Sub("x", "y") -> ("t": f32[1, 4096])
"b" = Sub("t", "z") -> ("u": f32[1, 4096])
output "u"
end
"""
DYNAMIC = """graph "g" opset 21
input "x": f32["N", 64, 64]
"a" = Sigmoid("x") -> ("t": f32["N", 64, 64])
"b" = Relu("t") -> ("u": f32["N", 64, 64])
output "u"
end
"""


def _copied(value: float, how: str) -> AnyArray:
    """Return an array of one value that has to be copied."""
    if how == "read-only":
        array = np.full((1, 4096), value, np.float32)
        array.setflags(write=False)
        return array
    return np.full((4096, 1), value, np.float32)[::-1].T


@pytest.mark.parametrize("how", ["read-only", "reversed"])
@pytest.mark.parametrize("taps", [(), ("t",)])
def test_copies_of_inputs_live_until_they_are_read(how: str, taps: tuple[str, ...]) -> None:
    graph = parse_graph(GRAPH)
    executable = load_on(backend("openvino"), graph, find_target("openvino:CPU"), CompileOptions(threads=1))
    for factor in (1.0, 2.0):
        feeds = {name: _copied(factor * value, how) for name, value in (("x", 100.0), ("y", 20.0), ("z", 3.0))}
        found = executable.run(feeds, taps)
        np.testing.assert_array_equal(found["u"], np.full((1, 4096), factor * 77, np.float32))
        for tap in taps:
            np.testing.assert_array_equal(found[tap], np.full((1, 4096), factor * 80, np.float32))


@pytest.mark.parametrize("taps", [(), ("t",)])
def test_an_empty_batch_does_not_end_the_process_on_one_processor(taps: tuple[str, ...]) -> None:
    """OpenVINO has no thread to give nothing to, and reads past the end: the child is pinned before it is loaded."""
    program = (
        "import os, sys, numpy as np\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from dovetail.backend.protocols import CompileOptions\n"
        "from dovetail.backend.registry import backend, find_target\n"
        "from dovetail.errors import DeviceError\n"
        "from dovetail.ir import parse_graph\n"
        "from dovetail.testing.agreement import load_on\n"
        "graph = parse_graph(sys.argv[1])\n"
        "executable = load_on(backend('openvino'), graph, find_target('openvino:CPU'), CompileOptions())\n"
        "none = np.zeros((0, 64, 64), np.float32)\n"
        "try:\n"
        "    executable.run({'x': none}, tuple(sys.argv[2:]))\n"
        "except DeviceError as error:\n"
        "    print(error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, DYNAMIC, *taps], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("openvino:CPU: input 'x' [0, 64, 64] is empty")
