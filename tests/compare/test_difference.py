"""Differences that are planted on a board: which operator, by how much, and by which rule, if any."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from boards import NPU, NUMPY_ONLY, small_network, write_samples
from served import Served, served

import dovetail
from dovetail.backend.arithmetic import TFLITE, Arithmetic, Rounding, Tie
from dovetail.backend.protocols import Blob, CompileOptions
from dovetail.backend.registry import backend
from dovetail.backends.reference.blob import FORMAT, ReferenceProgram, program_to_bytes
from dovetail.bundle import Bundle
from dovetail.cli.main import main
from dovetail.compile import CompileRequest
from dovetail.exporters.onnx import to_onnx
from dovetail.formats.acuity.tensors import tensor_file_name
from dovetail.ir import Graph
from dovetail.ir.types import dequantize_array
from dovetail.partition import PartitionedGraph
from dovetail.runtime.rows import read_feeds

Explained = tuple[int, Mapping[str, object]]
Explain = Callable[..., Explained]


@dataclass(frozen=True)
class Project:
    """A model with its plan, ranges and samples, and its partitions as they should run."""

    folder: Path
    partitioned: PartitionedGraph
    bundle: Bundle
    precision: str

    @property
    def options(self) -> tuple[object, ...]:
        """The model's side of the command."""
        files = (self.folder / "plan.json", self.folder / "ranges.json", self.folder / "x.npz")
        return (self.folder / "model.onnx", *_pairs(("--plan", "--ranges", "--data"), files))


def _pairs(options: tuple[str, ...], values: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(item for pair in zip(options, values, strict=True) for item in pair)


@pytest.fixture(scope="module", params=["i8pc", "u8", "i8dfp"])
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("project")
    onnx.save(to_onnx(small_network()), folder / "model.onnx")
    write_samples(folder / "x.npz", 3)
    graph = dovetail.normalize(dovetail.load_model(folder / "model.onnx"))
    calls = (
        ("calibrate", folder / "model.onnx", "--data", folder / "x.npz", "-o", folder / "ranges.json"),
        ("plan", folder / "model.onnx", "--place", f"{NPU}@{request.param}", "-o", folder / "plan.json"),
    )
    for call in calls:
        assert main([str(item) for item in call]) == 0
    plan, ranges = dovetail.load_plan(folder / "plan.json"), dovetail.load_ranges(folder / "ranges.json")
    partitioned = dovetail.partition(dovetail.quantize(graph, plan, ranges))
    bundle = dovetail.compile_model(partitioned, CompileRequest(backends=NUMPY_ONLY))
    return Project(folder, partitioned, bundle, request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("board")) as found:
        yield found


@pytest.fixture
def explain(project: Project, server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Explain a bundle that the board runs."""

    def call(bundle: Bundle, *options: object) -> Explained:
        dovetail.save_bundle(bundle, tmp_path / "bundle")
        return said(*project.options, "--bundle", tmp_path / "bundle", "--on", server.url, "--samples", 3, *options)

    def said(*arguments: object) -> Explained:
        capsys.readouterr()
        code = main(["explain-diff", *map(str, arguments), "--json"])
        told = capsys.readouterr()
        assert told.err == ""
        return code, json.loads(told.out)

    return call


def as_part(project: Project, part: str) -> Bundle:
    """Return the bundle with the NPU's partition compiled for another part."""
    owner = backend("npusim")

    def blob(graph: Graph) -> Blob:
        return owner.compile(graph, dovetail.find_target(part), CompileOptions())

    return _with_npu(project, "npusim", blob)


def by_rule(project: Project, arithmetic: Arithmetic, change: Callable[[Graph], Graph] = lambda graph: graph) -> Bundle:
    """Return the bundle with the NPU's partition computed by other rules."""
    return _with_npu(
        project,
        "reference",
        lambda graph: Blob(FORMAT, program_to_bytes(ReferenceProgram(NPU, arithmetic, change(graph)))),
    )


def _with_npu(project: Project, name: str, blob: Callable[[Graph], Blob]) -> Bundle:
    parts = list(project.bundle.partitions)
    (at,) = (index for index, part in enumerate(parts) if part.target == NPU)
    made = blob(project.partitioned.partitions[at].graph)
    parts[at] = replace(parts[at], backend=name, backend_version=backend(name).version, blob=made)
    return replace(project.bundle, partitions=tuple(parts))


def rules_of(row: Mapping[str, object]) -> list[str]:
    rules = row["rules"]
    assert isinstance(rules, list)
    return [rule["text"] for rule in rules]


def operators(document: Mapping[str, object]) -> list[dict[str, object]]:
    found = document["operators"]
    assert isinstance(found, list)
    return found


def test_the_same_part_is_equal(project: Project, explain: Explain) -> None:
    code, found = explain(project.bundle)
    assert (code, found["verdict"], found["operators"]) == (0, "equal", [])
    assert found["unjudged"] == []
    # Three convolutions with their clamps, the sigmoid, and the two borders of the NPU.
    assert found["judged"] == 6


def test_another_part_is_found_by_its_multiplier(project: Project, explain: Explain) -> None:
    bundle = as_part(project, "vsi:a311d")
    code, found = explain(bundle)
    pairs = zip(dumped(project, bundle), dumped(project, project.bundle), strict=True)
    same = all(np.array_equal(one[name], other[name]) for one, other in pairs for name in other)
    # Shaders of the older part, which take scales of channels, have no multiplier that could be cut.
    assert same is (project.precision != "u8")
    assert (code, found["verdict"]) == (0, "equal" if same else "expected")
    assert bool(operators(found)) is not same
    for row in operators(found):
        assert "with multipliers of 16 bits" in rules_of(row), row
        assert any("as vsi:a311d does" in text for text in rules_of(row)), row
        assert 0 < int(str(row["differing"])) < int(str(row["elements"]))


RULES = {
    "multiplier": (lambda own: replace(own, multiplier_bits=12), None),
    "sixteen": (lambda own: replace(own, multiplier_bits=16), "with multipliers of 16 bits"),
    "tflite": (lambda own: TFLITE, "as TFLite's reference kernels do"),
}


@pytest.mark.parametrize("how", sorted(RULES))
def test_another_rule_is_named_and_an_unknown_one_is_a_defect(how: str, project: Project, explain: Explain) -> None:
    change, text = RULES[how]
    own = dovetail.find_target(NPU).arithmetic
    code, found = explain(by_rule(project, change(own)))
    differing = [row for row in operators(found) if "Conv" in str(row["op"])]
    if project.precision == "i8dfp" and how != "tflite":
        # A power of two has one bit of mantissa: nothing is cut.
        assert (code, found["verdict"]) == (0, "equal")
        return
    assert differing
    for row in differing:
        assert (text in rules_of(row)) if text else row["verdict"] == "defect", row
    assert (code, found["verdict"]) == ((1, "defect") if text is None else (0, "expected"))


def test_halves_that_are_rounded_otherwise_are_named(project: Project, explain: Explain) -> None:
    own = dovetail.find_target(NPU).arithmetic
    away = replace(own, default=Rounding(Tie.AWAY), by_op={key: Rounding(Tie.AWAY) for key in own.by_op})
    _, found = explain(by_rule(project, away))
    convolutions = [row for row in operators(found) if "Conv" in str(row["op"])]
    if project.precision == "i8dfp":
        # Scales that are powers of two make halves common.
        assert len(convolutions) > 1
    for row in convolutions:
        assert row["largest_steps"] == 1
        assert "with halves rounded away from zero" in rules_of(row), row


def wrong_weight(graph: Graph) -> Graph:
    """Return a graph with one weight of its second convolution three steps off."""
    second = [node for node in graph.nodes if node.op == "Conv"][1]
    name = second.inputs[1]
    weight = graph.constants[name].copy()
    weight.flat[0] = int(weight.flat[0]) + (-3 if weight.flat[0] > 0 else 3)
    return graph.evolve(constants={**graph.constants, name: weight})


def test_one_wrong_operator_is_a_defect_with_a_file_that_shows_it(
    project: Project,
    explain: Explain,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = backend("npusim")
    target = dovetail.find_target(NPU)
    bundle = _with_npu(project, "npusim", lambda graph: owner.compile(wrong_weight(graph), target, CompileOptions()))
    code, found = explain(bundle, "-o", tmp_path / "case")
    assert (code, found["verdict"], len(operators(found))) == (1, "defect", 1)
    first = operators(found)[0]
    graph = project.partitioned.partitions[1].graph
    second = [node for node in graph.nodes if node.op == "Conv"][1]
    assert second.name in first["nodes"]  # type: ignore[operator]
    assert first["rules"] == []
    words = str(found["command"]).split()
    assert words[:2] == ["dovetail", "explain-diff"]
    monkeypatch.chdir(tmp_path / "case")
    capsys.readouterr()
    assert main([*words[1:], "--samples", "3", "--json"]) == 1
    again = json.loads(capsys.readouterr().out)
    for key in ("tensor", "differing", "largest_steps", "elements", "verdict"):
        assert again["first"][key] == first[key]
    assert str(first["differing"]) in (tmp_path / "case" / "README.md").read_text()


def dumped(project: Project, bundle: Bundle) -> list[dict[str, np.ndarray]]:
    """Return the tensors of a run, as stored."""
    names = [name for name in bundle.tensors if name not in bundle.outputs]
    feeds = read_feeds(project.folder / "x.npz", bundle.inputs)
    with dovetail.open_session(bundle) as session:
        runs = [session.run(feed, names) for feed in feeds]
    return [{**run.taps, **run.outputs} for run in runs]


@pytest.mark.parametrize("form", ["stored.npz", "real.npz", "acuity"])
def test_dumped_tensors_say_the_same(
    form: str, project: Project, explain: Explain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = as_part(project, "vsi:a311d")
    _, asked = explain(bundle)
    runs = dumped(project, bundle)
    if form != "stored.npz":
        runs = [{name: _real(bundle, name, array) for name, array in run.items()} for run in runs]
    path = tmp_path / form
    if form.endswith(".npz"):
        np.savez(path, **{name: np.stack([run[name] for run in runs]) for name in runs[0]})  # type: ignore[arg-type]
    else:
        path.mkdir()
        for index, run in enumerate(runs):
            for name, array in run.items():
                text = "\n".join(f"{value:.9g}" for value in array.ravel())
                (path / tensor_file_name(name, "out0", array.shape, index)).write_text(text)
    capsys.readouterr()
    code = main([*map(str, ("explain-diff", *project.options, "--tensors", path, "--samples", 3)), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["operators"]) == (0, asked["operators"])
    assert [row["tensor"] for row in found["operators"]] == [row["tensor"] for row in operators(asked)]


def _real(bundle: Bundle, name: str, array: np.ndarray) -> np.ndarray:
    quant = bundle.tensors[name].quant
    return array if quant is None else dequantize_array(array, quant).astype(np.float32)


def test_tensors_of_other_ranges_are_refused(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        {name: _real(project.bundle, name, array) * 1.01 for name, array in dumped(project, project.bundle)[0].items()}
    ]
    np.savez(tmp_path / "t.npz", **{name: np.stack([run[name] for run in runs]) for name in runs[0]})  # type: ignore[arg-type]
    code = main([*map(str, ("explain-diff", *project.options, "--tensors", tmp_path / "t.npz", "--samples", 1))])
    assert (code, "steps beside those of its scale" in capsys.readouterr().err) == (2, True)


def test_a_target_that_is_not_simulated_is_said(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ("plan", project.folder / "model.onnx", "--place", "reference@i8", "-o", tmp_path / "plan.json")
    assert main([str(item) for item in call]) == 0
    np.savez(tmp_path / "t.npz", t1=np.zeros((1, 8, 16, 16), np.float32))
    options = ("--ranges", project.folder / "ranges.json", "--data", project.folder / "x.npz", "--samples", 1)
    model = project.folder / "model.onnx"
    capsys.readouterr()
    words = ("explain-diff", model, "--plan", tmp_path / "plan.json", *options, "--tensors", tmp_path / "t.npz")
    assert main([str(item) for item in words]) == 2
    assert "exact simulation knows none of" in capsys.readouterr().err
