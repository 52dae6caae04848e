"""The file for a bug report: one operator, what it read on the board, what the board gave, and what was expected."""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail._version import __version__
from dovetail.compare.difference import Blame, DifferingOperator
from dovetail.compare.sides import Arrays
from dovetail.errors import DovetailError
from dovetail.exporters import to_onnx
from dovetail.files import new_folder
from dovetail.ir.storage import graph_to_bytes
from dovetail.runtime.rows import write_rows

GRAPH, ONNX, README, FACTS = "operator.dvg", "operator.onnx", "README.md", "difference.json"
INPUT, BOARD, EXPECTED = "input.npz", "board.npz", "expected.npz"
_FILES = frozenset({GRAPH, ONNX, README, FACTS, INPUT, BOARD, EXPECTED})
_KIND = "dovetail-difference"
_MOST_FACTS_BYTES = 1 << 20


def write_difference(found: DifferingOperator, folder: Path, origin: str, board: str) -> str:
    """Write a differing operator to a folder, all or nothing, and return the command that shows it again from there.

    `origin` names the model, `board` what ran it. Raises DovetailError when the folder holds anything else or cannot be
    written; an older case there is replaced.
    """
    words = ["dovetail", "explain-diff", GRAPH, "--target", found.part.target, "--data", INPUT, "--tensors", BOARD]
    command = shlex.join(words)
    with new_folder(folder, is_difference) as draft:
        (draft / GRAPH).write_bytes(graph_to_bytes(found.part.graph))
        try:
            (draft / ONNX).write_bytes(to_onnx(found.part.graph).SerializeToString())
        except DovetailError:
            # ONNX cannot say everything; the file of our own can.
            (draft / ONNX).unlink(missing_ok=True)
        for name, rows in ((INPUT, found.fed), (BOARD, found.board), (EXPECTED, _told(found.ours, found.board))):
            write_rows(draft / name, rows)
        facts = _facts(found, origin, board, command)
        (draft / FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        (draft / README).write_text(_text(found, facts), encoding="utf-8")
    return command


def is_difference(folder: Path) -> bool:
    """Tell whether a folder holds such a case and nothing else."""
    try:
        if not {path.name for path in folder.iterdir()} <= _FILES:
            return False
        path = folder / FACTS
        return path.stat().st_size < _MOST_FACTS_BYTES and json.loads(path.read_bytes())["kind"] == _KIND
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _told(ours: Sequence[Arrays], board: Sequence[Arrays]) -> list[Arrays]:
    return [{name: mine[name] for name in told} for mine, told in zip(ours, board, strict=True)]


def _facts(found: DifferingOperator, origin: str, board: str, command: str) -> Mapping[str, object]:
    return {
        "kind": _KIND,
        "model": origin,
        "board": board,
        "target": found.part.target,
        "dovetail": __version__,
        "platform": platform.platform(),
        "nodes": [{"name": node.name, "op": node.op} for node in found.part.graph.nodes],
        "tensor": found.tensor,
        "elements": found.steps.elements,
        "differing": found.steps.differing,
        "largest_steps": found.steps.largest,
        "verdict": found.blame.value,
        "rules": [rule.text for rule in found.rules],
        "command": command,
    }


def _text(found: DifferingOperator, facts: Mapping[str, object]) -> str:
    steps = found.steps
    verdict = (
        f"The board's values are those of the operator computed {found.rules[0].text}."
        if found.blame is Blame.EXPECTED
        else "No rule that is known gives the board's values."
    )
    lines = [
        f"# {found.op} on {facts['board']} differs from exact simulation of `{found.part.target}`",
        "",
        f"Found in '{facts['model']}', tensor '{found.tensor}': {steps.differing} of {steps.elements} elements from "
        f"the same inputs, by {steps.largest} steps of the last bit at most.",
        "",
        verdict,
        "",
        f"- `{GRAPH}`: the operator, quantised (`{ONNX}`: the same, where ONNX can say it)",
        f"- `{INPUT}`: what it read on the board, `[N, ...]` as stored",
        f"- `{BOARD}`: what the board gave; `{EXPECTED}`: what the simulation gives",
        "",
        f"In this folder:\n\n```console\n$ {facts['command']}\n```",
        "",
    ]
    return "\n".join(lines)
