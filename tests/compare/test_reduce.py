"""Reduce: the smallest part that misbehaves, by flaws planted in a second simulator, and the case that is written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dovetail.backend.failures import FailureMemory
from dovetail.cli.main import main
from dovetail.compare import Misbehaviour, ReduceRequest, random_samples, reduce_model, remember_reduced, write_case
from dovetail.compare.case import is_case
from dovetail.errors import CompileError, CompileFailure, DeviceNotFound, DovetailError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType, save_graph
from dovetail.partition import Partition, ReductionBudget

TARGET = "vsi:v853"


@pytest.fixture(scope="module")
def module(install: Callable[[str], None]) -> ModuleType:
    install("plantback")
    import plantback

    return plantback


@pytest.fixture
def plantback(module: ModuleType) -> Iterator[ModuleType]:
    module.plant(module.Flaws())
    yield module
    module.plant(module.Flaws())


def chain() -> Graph:
    """Return a u8 network: convolution, ReLU, sigmoid, a convolution beside it, and their concatenation."""
    scales = {"x": 0.05, "c": 0.08, "r": 0.08, "s": 1 / 256, "d": 0.1, "y": 0.1}
    types = {
        name: TensorType(
            DType.U8, (1, 4, 6, 6), Quantization((float(np.float32(scale)),), (0 if name == "s" else 100,))
        )
        for name, scale in scales.items()
    }
    types["y"] = TensorType(DType.U8, (1, 8, 6, 6), types["y"].quant)
    weight = TensorType(DType.U8, (4, 4, 3, 3), Quantization((float(np.float32(0.02)),), (128,)))
    random = np.random.default_rng(4)
    weights = {name: random.integers(0, 256, (4, 4, 3, 3)).astype(np.uint8) for name in ("w", "v")}
    nodes = (
        Node("conv", "Conv", ("x", "w"), ("c",), {"pads": (1, 1, 1, 1)}),
        Node("relu", "Relu", ("c",), ("r",)),
        Node("sigmoid", "Sigmoid", ("r",), ("s",)),
        Node("beside", "Conv", ("r", "v"), ("d",), {"pads": (1, 1, 1, 1)}),
        Node("join", "Concat", ("s", "d"), ("y",), {"axis": 1}),
    )
    return Graph("chain", nodes, ("x",), ("y",), {**types, "w": weight, "v": weight}, weights)


GRAPH = chain()
PARTS = (Partition(0, TARGET, GRAPH),)
SAMPLES = random_samples(GRAPH, 2, 0)


def having(*names: str) -> Callable[[Graph], bool]:
    return lambda graph: set(names) <= {node.name for node in graph.nodes}


def request(**changes: object) -> ReduceRequest:
    return ReduceRequest("plantback", **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failure", "misbehaviour"),
    [
        (CompileFailure.CRASHED, Misbehaviour.CRASHES),
        (CompileFailure.HUNG, Misbehaviour.HANGS),
        (CompileFailure.REFUSED, Misbehaviour.REFUSES),
        (None, Misbehaviour.REFUSES),
    ],
)
@pytest.mark.parametrize("names", [("sigmoid",), ("relu", "sigmoid"), ("conv", "join")])
def test_the_smallest_part_that_fails_to_compile_is_found(
    names: tuple[str, ...], failure: CompileFailure | None, misbehaviour: Misbehaviour, plantback: ModuleType
) -> None:
    plantback.plant(plantback.Flaws(fails=having(*names), failure=failure))
    found = reduce_model(PARTS, SAMPLES, request())
    assert found is not None
    assert tuple(node.name for node in found.part.graph.nodes) == names
    assert found.seen.misbehaviour is misbehaviour
    assert found.seen.reason == "a planted flaw."
    assert found.minimal
    assert not found.interrupted


def test_what_differs_is_found_with_the_sample_that_shows_it(plantback: ModuleType) -> None:
    plantback.plant(plantback.Flaws(differs=having("beside")))
    found = reduce_model(PARTS, SAMPLES, request())
    assert found is not None
    assert [node.name for node in found.part.graph.nodes] == ["beside"]
    assert found.seen.misbehaviour is Misbehaviour.DIFFERS
    assert found.seen.steps.differing == found.seen.steps.elements == 4 * 6 * 6
    assert found.seen.reason == "144 of 144 elements differ, the largest by 1"
    # The input of the part is what our simulation computed inside the whole, not a random value.
    (value,) = found.seen.feeds.values()
    assert value.min() >= 100


def test_a_device_that_dies_is_reduced_too(plantback: ModuleType) -> None:
    plantback.plant(plantback.Flaws(dies=having("join")))
    found = reduce_model(PARTS, SAMPLES, request())
    assert found is not None
    assert found.seen.misbehaviour is Misbehaviour.LOST
    assert [node.name for node in found.part.graph.nodes] == ["join"]


def test_another_failure_than_the_first_is_not_followed(plantback: ModuleType) -> None:
    """All of it crashes only with the whole; smaller parts differ, which is something else."""
    plantback.plant(plantback.Flaws(fails=having(*(node.name for node in GRAPH.nodes)), differs=having("sigmoid")))
    found = reduce_model(PARTS, SAMPLES, request())
    assert found is not None
    assert len(found.part.graph.nodes) == len(GRAPH.nodes)
    assert found.minimal


def test_nothing_wrong_is_nothing(plantback: ModuleType) -> None:
    assert reduce_model(PARTS, SAMPLES, request()) is None


def test_what_cannot_be_asked_is_an_error(plantback: ModuleType) -> None:
    with pytest.raises(DeviceNotFound, match="serves none of vsi:a311d"):
        reduce_model((Partition(0, "vsi:a311d", GRAPH),), SAMPLES, request())
    plantback.plant(plantback.Flaws(fails=having("join"), failure=CompileFailure.KILLED))
    with pytest.raises(CompileError, match="a planted flaw"):
        reduce_model(PARTS, SAMPLES, request())


def test_an_interruption_keeps_the_smallest_so_far(plantback: ModuleType) -> None:
    def fails(graph: Graph) -> bool:
        if len(graph.nodes) < 2:
            raise KeyboardInterrupt
        return "conv" in {node.name for node in graph.nodes}

    plantback.plant(plantback.Flaws(fails=fails))
    found = reduce_model(PARTS, SAMPLES, request())
    assert found is not None
    assert found.interrupted
    assert not found.minimal
    assert len(found.part.graph.nodes) == 2


def test_the_limits_reach_the_backend_and_the_budget_is_kept(plantback: ModuleType) -> None:
    flaws = plantback.plant(plantback.Flaws(fails=having("sigmoid")))
    found = reduce_model(PARTS, SAMPLES, request(budget=ReductionBudget(1)))
    assert found is not None
    assert found.tries == 1
    assert not found.minimal
    assert set(flaws.limits_s) == {600.0}


def test_a_case_is_complete_and_replaces_only_a_case(plantback: ModuleType, tmp_path: Path) -> None:
    plantback.plant(plantback.Flaws(differs=having("beside")))
    found = reduce_model(PARTS, SAMPLES, request())
    assert found is not None
    folder = tmp_path / "case"
    written = write_case(found, folder, request(), "chain.dvg")
    assert written.files == ("README.md", "case.json", "input.npz", "reduced.dvg", "reduced.onnx")
    assert sorted(path.name for path in folder.iterdir()) == list(written.files)
    assert [path.name for path in tmp_path.iterdir()] == ["case"]
    facts = json.loads((folder / "case.json").read_text())
    assert facts["nodes"] == [{"name": "beside", "op": "Conv"}]
    assert (facts["software"], facts["target"], facts["misbehaviour"]) == ("Flawed 7", TARGET, "differs")
    readme = (folder / "README.md").read_text()
    assert readme.startswith("# Flawed 7 differs on Conv\n")
    assert written.command in readme
    write_case(found, folder, request(), "chain.dvg")
    (folder / "mine.txt").write_text("precious")
    assert not is_case(folder)
    with pytest.raises(DovetailError, match="did not make"):
        write_case(found, folder, request(), "chain.dvg")
    assert (folder / "mine.txt").read_text() == "precious"


def test_the_command_of_a_case_shows_it_again(
    plantback: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is read and rewritten on its way in, and names may be others: the flaw is one of operators."""
    plantback.plant(plantback.Flaws(differs=lambda graph: "Conv" in {node.op for node in graph.nodes}))
    found = reduce_model(PARTS, SAMPLES, request())
    assert found is not None
    command = write_case(found, tmp_path / "case", request(), "chain.dvg").command
    assert "reduced.onnx" in command
    monkeypatch.chdir(tmp_path / "case")
    assert main([*shlex.split(command)[1:], "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert sum(item["differing"] for item in answer["outputs"]) > 0


def test_a_file_that_does_not_show_it_is_not_promised(plantback: ModuleType, tmp_path: Path) -> None:
    seen: list[Graph] = []

    def first_only(graph: Graph) -> bool:
        seen.append(graph)
        return len(seen) < 8

    plantback.plant(plantback.Flaws(fails=first_only))
    found = reduce_model(PARTS, SAMPLES, request(budget=ReductionBudget(3)))
    assert found is not None
    seen += [GRAPH] * 8
    written = write_case(found, tmp_path / "case", request(), "chain.dvg")
    assert written.command == ""
    assert "No command shows it" in (tmp_path / "case" / "README.md").read_text()


def test_a_crash_is_remembered_once_it_is_confirmed(plantback: ModuleType, tmp_path: Path) -> None:
    memory = FailureMemory(tmp_path)
    plantback.plant(plantback.Flaws(fails=having("sigmoid")))
    found = reduce_model(PARTS, SAMPLES, request())
    assert found is not None
    plantback.plant(plantback.Flaws())
    assert not remember_reduced(found, request(), memory)
    plantback.plant(plantback.Flaws(fails=having("sigmoid")))
    assert remember_reduced(found, request(), memory)
    (entry,) = memory.entries()
    assert (entry.ops, entry.software, entry.scope.backend) == (("Sigmoid",), "Flawed 7", "plantback")
    plantback.plant(plantback.Flaws(differs=having("sigmoid")))
    other = reduce_model(PARTS, SAMPLES, request())
    assert other is not None
    assert not remember_reduced(other, request(), memory)


def test_the_command_writes_a_case_and_says_so(
    plantback: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tmp_path / "chain.dvg", tmp_path / "case"
    save_graph(GRAPH, model)
    call = ["reduce", str(model), "--target", TARGET, "--against", "plantback", "-o", str(out), "--json"]
    assert main(call) == 1
    assert json.loads(capsys.readouterr().out) == {"against": "plantback", "misbehaviour": None}
    assert not out.exists()
    plantback.plant(plantback.Flaws(fails=having("sigmoid", "join")))
    assert main(call) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert said.err == ""
    assert [node["name"] for node in answer["nodes"]] == ["sigmoid", "join"]
    assert answer["remembered"]
    assert answer["folder"] == str(out)
    assert main([*call, "--budget", "1"]) == 0
    assert not json.loads(capsys.readouterr().out)["minimal"]
    assert main(["sdk", "failures", "--json"]) == 0
    mine = [item for item in json.loads(capsys.readouterr().out)["failures"] if item["backend"] == "plantback"]
    assert {tuple(item["ops"]) for item in mine} >= {("Sigmoid", "Concat")}
    for item in mine:
        assert main(["sdk", "failures", "--forget", item["id"][:12]]) == 0
    capsys.readouterr()
    assert main(["sdk", "failures", "--forget", mine[0]["id"]]) == 2
    assert "nothing of that id" in capsys.readouterr().err


def test_an_interrupted_command_writes_what_it_has(
    plantback: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out, armed = tmp_path / "chain.dvg", tmp_path / "case", [True]
    save_graph(GRAPH, model)

    def fails(graph: Graph) -> bool:
        if len(graph.nodes) < 4 and armed:
            armed.clear()
            raise KeyboardInterrupt
        return True

    plantback.plant(plantback.Flaws(fails=fails))
    call = ["reduce", str(model), "--target", TARGET, "--against", "plantback", "-o", str(out), "--json"]
    assert main(call) == 130
    answer = json.loads(capsys.readouterr().out)
    assert answer["interrupted"]
    assert not answer["remembered"]
    assert is_case(out)


def test_mistakes_are_one_line(plantback: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "chain.dvg"
    save_graph(GRAPH, model)
    for options, words in (
        ((), "give --plan and --ranges, or --target"),
        (("--target", TARGET, "--budget", "many"), "TRIES[/SECONDS] is expected"),
        (("--target", TARGET, "--budget", "0/5"), "TRIES[/SECONDS] is expected"),
        (("--target", TARGET, "--samples", "0"), "is a count"),
        (("--target", TARGET, "--against", "nobody"), "backend 'nobody' is not installed"),
    ):
        assert main(["reduce", str(model), "--against", "plantback", "-o", str(tmp_path / "out"), *options]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
