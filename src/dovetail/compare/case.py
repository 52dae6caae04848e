"""A case for a report: the smallest misbehaving part as files that reproduce what was seen, and what to tell."""

from __future__ import annotations

import io
import json
import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from dovetail.backend.registry import backend
from dovetail.compare.reduce import Misbehaviour, PartJudge, Reduced, ReduceRequest
from dovetail.errors import DovetailError
from dovetail.exporters import to_onnx
from dovetail.files import new_folder
from dovetail.importers import load_model
from dovetail.ir.storage import graph_to_bytes
from dovetail.ir.types import TensorType
from dovetail.passes import normalize
from dovetail.quantize import is_quantized

ONNX, GRAPH, INPUT, README, FACTS = "reduced.onnx", "reduced.dvg", "input.npz", "README.md", "case.json"
_FILES = frozenset({ONNX, GRAPH, INPUT, README, FACTS})
_KIND = "dovetail-case"
_MOST_FACTS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WrittenCase:
    """Where a case is, and the command that shows it again from its files, to be run in its folder.

    The command is empty where no file that Dovetail reads back shows it.
    """

    folder: Path
    files: tuple[str, ...]
    command: str


def write_case(reduced: Reduced, folder: Path, request: ReduceRequest, origin: str) -> WrittenCase:
    """Write what was found to a folder, all or nothing; an older case there is replaced.

    `origin` names the model. Each model file is read back and tried before the text names it. Raises DovetailError
    when the folder holds anything else or cannot be written.
    """
    with new_folder(folder, is_case) as draft:
        feeds = io.BytesIO()
        np.savez(feeds, allow_pickle=False, **{name: value[None] for name, value in reduced.seen.feeds.items()})
        (draft / INPUT).write_bytes(feeds.getvalue())
        shown = ""
        for name, content in _models(reduced).items():
            (draft / name).write_bytes(content)
            shown = shown or (name if _shows(draft / name, reduced, request) else "")
        command = _command(shown, reduced.part.target, request.against) if shown else ""
        facts = _facts(reduced, request, origin, command)
        (draft / FACTS).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        (draft / README).write_text(_text(reduced, request, facts), encoding="utf-8")
        files = tuple(sorted(path.name for path in draft.iterdir()))
    return WrittenCase(folder, files, command)


def is_case(folder: Path) -> bool:
    """Tell whether a folder holds a case and nothing else."""
    try:
        if not {path.name for path in folder.iterdir()} <= _FILES:
            return False
        path = folder / FACTS
        return path.stat().st_size < _MOST_FACTS_BYTES and json.loads(path.read_bytes())["kind"] == _KIND
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _models(reduced: Reduced) -> Mapping[str, bytes]:
    """Return the files of the part: ONNX for everybody, where it can say everything, and our own, which does."""
    files = {GRAPH: graph_to_bytes(reduced.part.graph)}
    try:
        return {ONNX: to_onnx(reduced.part.graph).SerializeToString(), **files}
    except DovetailError:
        return files


def _shows(path: Path, reduced: Reduced, request: ReduceRequest) -> bool:
    """Tell whether a file, as commands read it, shows what was seen; what hangs is not waited for again."""
    seen = reduced.seen
    try:
        graph = normalize(load_model(path))
    except DovetailError:
        return False
    if not is_quantized(graph) or set(graph.inputs) != set(seen.feeds):
        return False
    if seen.misbehaviour is Misbehaviour.HANGS:
        return True
    again = PartJudge(reduced.part.target, [dict(seen.feeds)], request).see(graph)
    return again is not None and again.misbehaviour is seen.misbehaviour


def _command(model: str, target: str, against: str) -> str:
    words = ["dovetail", "verify", model, "--target", target, "--against", against, "--data", INPUT]
    return shlex.join([*words, "--samples", "1", "--operators", "0"])


def _facts(reduced: Reduced, request: ReduceRequest, origin: str, command: str) -> dict[str, object]:
    owner = backend(request.against)
    return {
        "kind": _KIND,
        "model": origin,
        "target": reduced.part.target,
        "backend": request.against,
        "backend_version": owner.version,
        "software": owner.abilities().software,
        "dovetail": version("dovetail"),
        "platform": platform.platform(),
        "misbehaviour": reduced.seen.misbehaviour.name.lower(),
        "reason": reduced.seen.reason,
        "nodes": [{"name": node.name, "op": node.op} for node in reduced.part.graph.nodes],
        "minimal": reduced.minimal,
        "tries": reduced.tries,
        "command": command,
    }


def _text(reduced: Reduced, request: ReduceRequest, facts: dict[str, object]) -> str:
    graph, seen = reduced.part.graph, reduced.seen
    what = facts["software"] or f"Backend {request.against}"
    ops = ", ".join(node.op for node in graph.nodes)
    edges = [(side, name) for side, names in (("in", graph.inputs), ("out", graph.outputs)) for name in names]
    kinds = [f"- {side}: `{name}` {_form(graph.types[name])}" for side, name in edges]
    small = "No node can be left out." if reduced.minimal else "Smaller parts were not all tried."
    again = (
        f"In this folder:\n\n```console\n$ {facts['command']}\n```\n\n{_EXPECTED[seen.misbehaviour]}"
        if facts["command"]
        else "No command shows it from these files alone: the part is not quantised, or is rewritten as it is read."
    )
    return "\n".join(
        [
            f"# {what} {seen.misbehaviour.value} {ops}",
            "",
            f"Found in '{facts['model']}' on `{reduced.part.target}`. {small}",
            "",
            f"> {' '.join(seen.reason.split())}",
            "",
            "## Show it again",
            "",
            again,
            "",
            "## What it is",
            "",
            *(f"- `{node.name}`: {node.op}" for node in graph.nodes),
            *kinds,
            "",
            "## Versions",
            "",
            *(f"- {key.replace('_', ' ')}: {facts[key]}" for key in _VERSIONS if facts[key]),
            "",
            "Files: `reduced.onnx` (quantised, Q/DQ pairs), `reduced.dvg` (the same for Dovetail), `input.npz`",
            "(one sample of stored values), `case.json` (these facts).",
            "",
        ]
    )


def _form(kind: TensorType) -> str:
    return f"{kind.dtype.value}{list(kind.shape or ())}"


_VERSIONS = ("software", "backend_version", "dovetail", "platform")
_EXPECTED = {
    Misbehaviour.REFUSES: "It ends with exit code 2 and the reason above.",
    Misbehaviour.CRASHES: "It ends with exit code 2 and the reason above.",
    Misbehaviour.HANGS: "It does not end before its limit of time.",
    Misbehaviour.LOST: "It ends with exit code 2 and the reason above.",
    Misbehaviour.DIFFERS: "It ends with exit code 1 and counts the elements that differ.",
}
