"""A tiny model that 8 bits break, with data, and what the commands make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from onnx import TensorProto, helper, numpy_helper

from dovetail.cli.main import main
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb, add_verb

METRIC = '''
import numpy as np


def score(outputs, labels):
    """The best of the three scores, which share a tensor with pixels."""
    return (outputs["out"][:, 3:].argmax(axis=1) == labels["label"]).astype(np.float64)
'''


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Tiny:
    """Files of the tiny model."""

    folder: Path
    model: Path
    data: Path
    metric: str
    ranges: Path
    plan: Path
    bundle: Path
    quantized: Path
    bisection: Path
    log: Path


def tiny_model(seed: int = 3) -> onnx.ModelProto:
    """Scores in 0..1 and pixels up to a hundred, joined into one output `[N, 6]`, as detectors do."""
    rng = np.random.default_rng(seed)
    weights = {
        "trunk_w": rng.normal(size=(8, 4)) * 0.5,
        "trunk_b": rng.normal(size=8) * 0.1,
        "pixel_w": np.abs(rng.normal(size=(3, 8))) * 20,
        "score_w": rng.normal(size=(3, 8)),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "trunk_w", "trunk_b"], ["t"], "trunk", transB=1),
        helper.make_node("Relu", ["t"], ["h"], "trunk_relu"),
        helper.make_node("Gemm", ["h", "pixel_w"], ["pixels"], "pixels", transB=1),
        helper.make_node("Gemm", ["h", "score_w"], ["logits"], "logits", transB=1),
        helper.make_node("Sigmoid", ["logits"], ["scores"], "scores"),
        helper.make_node("Concat", ["pixels", "scores"], ["out"], "join", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["N", 6])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command in this process."""

    def call(*arguments: object) -> Said:
        code = main([str(item) for item in arguments])
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return call


@pytest.fixture
def failing(capsys: pytest.CaptureFixture[str]) -> Callable[[Exception], Said]:
    """Run a command that fails with an error."""

    def call(error: Exception) -> Said:
        @dataclass(frozen=True)
        class Failing(Verb):
            """Fail."""

            def run(self, screen: Screen) -> Answer:
                raise error

        app = typer.Typer()
        add_verb(app, "failing", Failing)
        with pytest.raises(SystemExit) as ended:
            app([])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, said.out, said.err)

    return call


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Make the tiny model, its data, and ranges, a plan and a bundle by the commands."""
    import onnxruntime

    folder = tmp_path_factory.mktemp("tiny")
    found = Tiny(
        folder,
        folder / "tiny.onnx",
        folder / "data.npz",
        f"{folder / 'metric.py'}:score",
        folder / "ranges.json",
        folder / "plan.json",
        folder / "bundle",
        folder / "tiny.qdq.onnx",
        folder / "bisection",
        folder / "log.jsonl",
    )
    onnx.save(tiny_model(), found.model)
    x = np.random.default_rng(5).normal(size=(120, 4)).astype(np.float32)
    out = onnxruntime.InferenceSession(str(found.model)).run(None, {"x": x})[0]
    np.savez(found.data, x=x, label=out[:, 3:].argmax(axis=1).astype(np.int64))
    (folder / "metric.py").write_text(METRIC)
    (folder / "scope.json").write_text('{"names": ["join", "scores"]}')
    chain = (
        ("calibrate", found.model, "--data", found.data, "-o", found.ranges),
        ("plan", found.model, "--place", "vsi:v853@i8pc", "-o", found.plan),
        ("compile", found.model, "--plan", found.plan, "--ranges", found.ranges, "-o", found.bundle),
        ("quantize", found.model, "--plan", found.plan, "--ranges", found.ranges, "-o", found.quantized),
        (
            "bisect",
            "start",
            "--model",
            found.model,
            "--state",
            found.bisection,
            "--candidate",
            folder / "candidate.txt",
        ),
        (
            *("tune", found.model, "--data", found.data, "--metric", found.metric),
            *("--log", found.log, "-o", folder / "tuned"),
        ),
    )
    for command in chain:
        assert main([*map(str, command)]) == 0
    return found
