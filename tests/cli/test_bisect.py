"""dovetail bisect on a model that 8 bits break, judged by a shell script around ONNX Runtime's own quantiser."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from .conftest import Said

Run = Callable[..., Said]

WIDTH, BLOCKS, BROKEN = 24, 12, (4, 9)

ORACLE = """
import sys

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

model, data, exclude, out = sys.argv[1:]
samples = np.load(data)["x"]


class Reader(CalibrationDataReader):
    def __init__(self):
        self.rows = iter(samples[:64])

    def get_next(self):
        row = next(self.rows, None)
        return None if row is None else {"x": row[None]}


names = [line.strip() for line in open(exclude) if line.strip()]
onnxruntime.set_default_logger_severity(4)
quantize_static(model, out, Reader(), quant_format=QuantFormat.QDQ, nodes_to_exclude=names)


def run(path):
    return onnxruntime.InferenceSession(path).run(None, {"x": samples})[0].argmax(axis=1)


print("agreement", (run(model) == run(out)).mean())
"""

SCRIPT = """#!/bin/sh
# $1: the candidate; CRASH_EVERY: crash on every so many runs
count=$(($(cat "{folder}/count" 2>/dev/null || echo 0) + 1))
echo $count > "{folder}/count"
[ -n "$CRASH_EVERY" ] && [ $((count % CRASH_EVERY)) -eq 0 ] && exit 125
cd "{folder}"
"{python}" oracle.py model.onnx data.npz "$1" quantised.onnx > said || exit 125
cat said
awk '$1 == "agreement" {{ exit !($2 >= 0.85) }}' said
"""


@dataclass(frozen=True)
class Case:
    """A folder with a failing model and the script that judges it."""

    folder: Path
    model: Path
    data: Path
    script: Path


def _model() -> onnx.ModelProto:
    """Blocks of a residual network; two of them have channels three decades apart, which cancel in float."""
    rng = np.random.default_rng(3)
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}
    last = "x"
    for block in range(BLOCKS):
        up = rng.normal(size=(WIDTH, WIDTH)) / math.sqrt(WIDTH)
        down = rng.normal(size=(WIDTH, WIDTH)) / math.sqrt(WIDTH)
        if block in BROKEN:
            scale = 10.0 ** np.linspace(-2, 2, WIDTH)
            up, down = up * scale, down / scale[:, None]
        weights |= {f"up{block}_w": up, f"down{block}_w": down * 0.7}
        nodes += [
            helper.make_node("MatMul", [last, f"up{block}_w"], [f"up{block}_y"], f"up{block}"),
            helper.make_node("Relu", [f"up{block}_y"], [f"relu{block}_y"], f"relu{block}"),
            helper.make_node("MatMul", [f"relu{block}_y", f"down{block}_w"], [f"down{block}_y"], f"down{block}"),
            helper.make_node("Add", [last, f"down{block}_y"], [f"add{block}_y"], f"add{block}"),
        ]
        last = f"add{block}_y"
    graph = helper.make_graph(
        nodes,
        "blocks",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", WIDTH])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["N", WIDTH])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """Write the model, its data and the script."""
    onnx.save(_model(), tmp_path / "model.onnx")
    rows = np.random.default_rng(1).normal(size=(400, WIDTH)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=rows)
    (tmp_path / "oracle.py").write_text(ORACLE)
    script = tmp_path / "evaluate.sh"
    script.write_text(SCRIPT.format(folder=tmp_path, python=sys.executable))
    script.chmod(0o755)
    return Case(tmp_path, tmp_path / "model.onnx", tmp_path / "data.npz", script)


def _bisect(case: Case, run: Run, *start: object) -> dict[str, object]:
    state = ("--state", case.folder / "state")
    candidate = case.folder / "exclude.txt"
    begun = run("bisect", "start", "--model", case.model, *start, "--candidate", candidate, *state)
    assert begun.code == 0, begun.err
    said = run("bisect", "run", "--json", *state, "--", case.script, candidate)
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert isinstance(found, dict)
    return found


def _bound(found: dict[str, object]) -> float:
    culprits, lines = found["culprits"], found["lines"]
    assert isinstance(culprits, list)
    assert isinstance(lines, int)
    return 2 * math.log2(lines) + 3 * len(culprits)


@pytest.mark.slow
@pytest.mark.parametrize("crash_every", ["", "5"])
@pytest.mark.parametrize("prior", ["simulation", "model"])
def test_a_shell_script_around_onnx_runtime_is_oracle_enough(
    case: Case, run: Run, monkeypatch: pytest.MonkeyPatch, crash_every: str, prior: str
) -> None:
    monkeypatch.setenv("CRASH_EVERY", crash_every)
    found = _bisect(case, run, *(("--data", case.data) if prior == "simulation" else ()))
    culprits = found["culprits"]
    assert isinstance(culprits, list)
    assert found["unresolved"] == []
    assert set(culprits) == {f"{half}{block}" for block in BROKEN for half in ("up", "down")}
    assert (case.folder / "count").read_text().strip() == str(found["runs"])
    assert int(str(found["runs"])) <= _bound(found), (found["runs"], _bound(found))
    answers = found["answers"]
    assert isinstance(answers, list)
    skipped = [item for item in answers if item["status"] == "cannot_test"]
    assert bool(skipped) == (crash_every == "5" and len(answers) >= 5)
    # The candidate that is left on disk is the answer, and it passes.
    monkeypatch.setenv("CRASH_EVERY", "")
    import subprocess

    done = subprocess.run([case.script, case.folder / "exclude.txt"], check=False, capture_output=True)
    assert done.returncode == 0


def test_by_hand_log_replay_and_reset(tmp_path: Path, run: Run) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"op{index}\n" for index in range(10)))
    state = ("--state", tmp_path / "state")
    candidate = tmp_path / "subgraph.txt"
    run("bisect", "start", "--lines", tmp_path / "lines.txt", "--candidate", candidate, *state)
    for _ in range(30):
        raised = candidate.read_text().split()
        said = run("bisect", "good" if "op3" in raised else "bad", *state, "--json")
        if json.loads(said.out)["ended"]:
            break
    assert json.loads(said.out)["culprits"] == ["op3"]
    assert candidate.read_text().split() == ["op3"]
    assert "found: it passes with 1 of 10 lines raised" in run("bisect", "log", *state).out
    assert "has ended" in run("bisect", "good", *state).err
    log = tmp_path / "copy.jsonl"
    log.write_text("".join((tmp_path / "state" / "log.jsonl").read_text().splitlines(keepends=True)[:3]))
    assert json.loads(run("bisect", "replay", log, *state, "--json").out)["runs"] == 3
    assert run("bisect", "skip", *state).code == 0
    assert run("bisect", "reset", *state).code == 0
    assert not (tmp_path / "state").exists()


def test_the_plan_format_is_a_plan_of_the_model(tmp_path: Path, run: Run, case: Case) -> None:
    import dovetail

    state = ("--state", tmp_path / "state", "--candidate", tmp_path / "plan.json")
    assert run("bisect", "start", "--model", case.model, "--format", "plan", *state).code == 0
    graph = dovetail.normalize(dovetail.load_model(case.model))
    dovetail.load_plan(tmp_path / "plan.json").check(graph)
    # What never passes is asked whether it does with everything raised.
    for _ in range(4):
        run("bisect", "bad", "--state", tmp_path / "state")
    raised = dovetail.load_plan(tmp_path / "plan.json")
    assert {str(raised.placement(node.name)) for node in graph.nodes} == {"cpu@fp32"}


def test_candidates_come_in_the_formats_of_other_toolchains(tmp_path: Path, run: Run, case: Case) -> None:
    import dovetail
    from dovetail.formats import ReadRequest, find_format

    state = ("--state", tmp_path / "state", "--candidate", tmp_path / "candidate.json")
    said = run("bisect", "start", "--model", case.model, "--format", "onnxruntime", *state)
    assert said.code == 0, said.err
    # What never passes is asked whether it does with everything raised.
    for _ in range(4):
        run("bisect", "bad", "--state", tmp_path / "state")
    graph = dovetail.normalize(dovetail.load_model(case.model))
    plan = find_format("onnxruntime").read(
        (tmp_path / "candidate.json").read_bytes(), ReadRequest(graph, dovetail.parse_placement("vsi:v853@i8pc"))
    )
    assert {plan.placement(node.name).target for node in graph.nodes} == {"cpu"}


def test_a_shape_goes_with_a_format_of_another_toolchain(tmp_path: Path, run: Run) -> None:
    """Without it most of the network could only be on the CPU, and little would be left to bisect."""
    kernel = numpy_helper.from_array(np.ones((3, 3, 3, 3), np.float32), "k")
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], "one", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "k"], ["y"], "two", pads=[1, 1, 1, 1]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, "h", "w"]) for name in "xy"]
    opset = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [kernel])
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "m.onnx")
    log = "subgraph operators: \nfeed:feed:x\nconv2d:x,k:a\nconv2d:a,k:y\nfetch:y:fetch\n\n"
    (tmp_path / "log.txt").write_text(log)
    candidate, state = tmp_path / "subgraph.txt", ("--state", tmp_path / "state")
    start = ("--model", tmp_path / "m.onnx", "--low", "vsi:a311d@u8", "--format", "paddle-subgraph")
    listing = ("--listing", tmp_path / "log.txt", "--shape", "x=1,3,16,16", "--candidate", candidate)
    said = run("bisect", "start", *start, *listing, *state, "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["lines"] == 2
    sizes = [candidate.read_bytes()]
    for _ in range(10):
        verdict = "good" if b"conv2d:a,k:y" in sizes[-1] else "bad"
        said = run("bisect", verdict, *state, "--json")
        sizes.append(candidate.read_bytes())
        if json.loads(said.out)["ended"]:
            break
    assert sizes[0] == b"\n"
    assert sizes[-1] == b"conv2d:a,k:y\n"
    assert all(sizes)


def test_what_cannot_be_reached_is_said_with_code_1(tmp_path: Path, run: Run) -> None:
    (tmp_path / "lines.txt").write_text("a\nb\n")
    state = ("--state", tmp_path / "state")
    run("bisect", "start", "--lines", tmp_path / "lines.txt", "--candidate", tmp_path / "c.txt", *state)
    said = run("bisect", "run", *state, "--", "false")
    assert (said.code, "unreachable" in said.out) == (1, True)


def test_mistakes_are_one_line(tmp_path: Path, run: Run) -> None:
    (tmp_path / "lines.txt").write_text("a\nb\n")
    (tmp_path / "mine.txt").write_text("precious")
    state = ("--state", tmp_path / "state")
    lines = ("--lines", tmp_path / "lines.txt")
    unknown: tuple[tuple[tuple[object, ...], str], ...] = (
        (("stat",), "Did you mean 'start'"),
        (("run", *state, "--", "true"), "no bisection is under way"),
        (("start", *state), "either --model or --lines"),
        (("start", *state, *lines, "--candidate", tmp_path / "mine.txt"), "exists"),
        (("start", *state, *lines, "--candidate", tmp_path / "state" / "c.txt"), "in the folder of the bisection"),
        (("start", *state, *lines, "--candidate", tmp_path / "c.txt", "--format", "plann"), "Did you mean 'plan'"),
        (("start", *state, "--lines", tmp_path / "none.txt"), "cannot be read"),
        (("start", "more", *state), "takes no 'more'"),
        (("reset", *state), "no bisection is under way"),
    )
    for words, says in unknown:
        said = run("bisect", *words)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), words
        assert says in said.err
    assert (tmp_path / "mine.txt").read_text() == "precious"
    run("bisect", "start", *lines, "--candidate", tmp_path / "c.txt", *state)
    under_way: tuple[tuple[tuple[object, ...], str], ...] = (
        (("run", *state), "no command"),
        (("run", *state, "--", "/no/such/command"), "cannot be started"),
        (("run", *state, "--timeout", "0", "--", "true"), "is no time"),
        (("run", *state, "--metric-regex", "x", "--at-least", "1", "--", "true"), "has no group"),
        (("replay", *state), "takes one file"),
    )
    for words, says in under_way:
        said = run("bisect", *words)
        assert (said.code, said.err.count("\n")) == (2, 1), words
        assert says in said.err
    assert not (tmp_path / "state" / "log.jsonl").exists()
