"""What compilers failed on, in a folder that anybody may have written to."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.failures import FailureMemory, FailureScope
from dovetail.errors import CompileFailure
from dovetail.ir import DType, Graph, Node, TensorType

SCOPE = FailureScope("vsi", "1.0+2.abcd", "vsi:v853")


def chain(*ops: str, size: int = 2) -> Graph:
    """Return a chain of operators over `[1, size]`."""
    nodes = tuple(Node(f"n{index}", op, (f"t{index}",), (f"t{index + 1}",)) for index, op in enumerate(ops))
    kind = TensorType(DType.F32, (1, size))
    return Graph("chain", nodes, ("t0",), (f"t{len(ops)}",), {f"t{index}": kind for index in range(len(ops) + 1)})


def remember(memory: FailureMemory, graph: Graph, scope: FailureScope = SCOPE) -> bool:
    return memory.remember(scope, graph, CompileFailure.CRASHED, "SIGSEGV\nat \x1b0", "VeriSilicon SDK 6")


def test_what_is_remembered_is_found_for_its_target_and_software_only(tmp_path: Path) -> None:
    memory = FailureMemory(tmp_path / "failures")
    assert memory.stamp == 0
    assert memory.entries() == ()
    assert remember(memory, chain("Exp", "Abs"))
    found = memory.find(SCOPE, chain("Relu", "Exp", "Abs", "Neg"))
    assert found is not None
    assert found.nodes == ("n1", "n2")
    assert found.known.told == "VeriSilicon SDK 6 crashes on it, as was seen before: SIGSEGV at ?0"
    assert memory.find(SCOPE, chain("Exp", "Neg", "Abs")) is None
    assert memory.find(SCOPE, chain("Exp", "Abs", size=3)) is None
    for other in ({"backend": "ort"}, {"version": "1.0+2.beef"}, {"target": "vsi:a311d"}, {"mark": "driver 7"}):
        assert memory.find(replace(SCOPE, **other), chain("Exp", "Abs")) is None


def test_the_same_failure_is_one_entry_and_can_be_forgotten(tmp_path: Path) -> None:
    memory = FailureMemory(tmp_path)
    assert remember(memory, chain("Exp"))
    assert remember(memory, chain("Exp"))
    assert remember(memory, chain("Abs"))
    assert [entry.ops for entry in memory.entries()] == [("Exp",), ("Abs",)]
    memory.forget(memory.entries()[:1])
    assert [entry.ops for entry in memory.entries()] == [("Abs",)]
    memory.forget(memory.entries() * 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", [CompileFailure.REFUSED, CompileFailure.KILLED])
def test_a_refusal_and_what_was_killed_are_not_kept(failure: CompileFailure, tmp_path: Path) -> None:
    assert not FailureMemory(tmp_path).remember(SCOPE, chain("Exp"), failure, "", "")
    assert list(tmp_path.iterdir()) == []


def test_it_is_bounded_and_the_oldest_go(tmp_path: Path) -> None:
    memory = FailureMemory(tmp_path, most=3)
    for size in range(1, 6):
        assert remember(memory, chain("Exp", size=size))
        for age, path in enumerate(sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns)):
            os.utime(path, (age, age))
    assert len(memory.entries()) == 3
    assert memory.find(SCOPE, chain("Exp", size=5)) is not None
    assert memory.find(SCOPE, chain("Exp", size=1)) is None
    assert not remember(memory, chain(*["Exp"] * 65))


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = FailureMemory(tmp_path / "file" / "failures")
    assert not remember(memory, chain("Exp"))
    assert memory.entries() == ()


@given(st.data())
def test_damaged_files_are_left_aside(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    memory = FailureMemory(folder)
    remember(memory, chain("Exp", "Abs"))
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])
    (folder / f"{'0' * 64}.json").write_bytes(data.draw(st.binary(max_size=60)))
    os.utime(folder, ns=(1, data.draw(st.integers(1, 2**40))))
    # What is not in the digest may have changed; everything else is left aside.
    assert all(entry.ops == ("Exp", "Abs") for entry in memory.entries())
    memory.find(SCOPE, chain("Exp", "Abs"))


def test_a_file_made_by_somebody_else_breaks_nothing(tmp_path: Path) -> None:
    memory = FailureMemory(tmp_path)
    remember(memory, chain("Exp"))
    (entry,) = memory.entries()
    (node,) = entry.pattern.nodes
    forged = replace(entry, pattern=replace(entry.pattern, nodes=(replace(node, reads=(0, 1, 2)),)))
    facts = json.loads((tmp_path / f"{entry.digest}.json").read_bytes())
    facts["nodes"][0][2] = [0, 1, 2]
    (tmp_path / f"{forged.digest}.json").write_text(json.dumps(facts))
    memory.forget([entry])
    assert [item.digest for item in memory.entries()] == [forged.digest]
    assert memory.find(SCOPE, chain("Exp")) is None
    (tmp_path / f"{'1' * 64}.json").write_text("[" * 100_000)
    os.utime(tmp_path, ns=(2, 2))
    assert [item.digest for item in memory.entries()] == [forged.digest]
