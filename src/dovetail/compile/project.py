"""PartitionedGraph -> source projects: one for each partition on an NPU, and the CPU's between them as ONNX files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.backend.project import ProjectStyle
from dovetail.backend.registry import backend_statuses, backends_for, find_target
from dovetail.errors import CompileError, DovetailError
from dovetail.partition.partitioned import Partition, PartitionedGraph
from dovetail.plan.placement import HOST

RECORD = "project.json"
"""The file by which a folder of projects is known."""
_KIND = "dovetail-project"
_CONVERTING = frozenset({"QuantizeLinear", "DequantizeLinear"})


@dataclass(frozen=True, slots=True)
class ProjectPart:
    """Where a partition's project (or ONNX file, on the CPU) lies; an empty path is the folder itself."""

    path: str
    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectSet:
    """Files by path below a folder, and the parts of the model in the order in which they run."""

    parts: tuple[ProjectPart, ...]
    files: Mapping[str, bytes]

    @property
    def is_whole(self) -> bool:
        """Tell whether one project runs the whole model: its main program quantises and dequantises."""
        return len(self.parts) == 1 and not self.parts[0].path


def make_projects(partitioned: PartitionedGraph, style: ProjectStyle) -> ProjectSet:
    """Return the projects of a model; raise CompileError naming the partition that cannot be written.

    Where all that the CPU does is to quantise inputs and dequantise outputs there is one project, in the folder itself.
    Else each partition has a folder or a file of its own, numbered in the order of running.
    """
    own = [part for part in partitioned.partitions if part.target != HOST]
    if not own:
        raise CompileError("no partition of this plan is on an NPU: there is nothing to write a project of.")
    if len(own) == 1 and all(_is_edge(partitioned, part) for part in partitioned.partitions if part is not own[0]):
        part = own[0]
        parts: tuple[ProjectPart, ...] = (ProjectPart("", part.target, part.graph.inputs, part.graph.outputs),)
        files = dict(_files(part, style, _labels(partitioned, part)))
    else:
        parts, files = _several(partitioned, style)
    files[RECORD] = _record(partitioned, style, parts)
    return ProjectSet(parts, files)


def _is_edge(partitioned: PartitionedGraph, part: Partition) -> bool:
    """Tell whether a partition only converts the model's inputs or outputs, as main programs do."""
    whole, graph = partitioned.source.graph, part.graph
    converts = all(node.op in _CONVERTING and node.name in partitioned.source.boundaries for node in graph.nodes)
    return converts and (set(graph.inputs) <= set(whole.inputs) or set(graph.outputs) <= set(whole.outputs))


def _several(partitioned: PartitionedGraph, style: ProjectStyle) -> tuple[tuple[ProjectPart, ...], dict[str, bytes]]:
    from dovetail.exporters import to_onnx  # onnx takes a while to load, and compiling needs none of it

    parts: list[ProjectPart] = []
    files: dict[str, bytes] = {}
    for part in partitioned.partitions:
        name = f"{part.index}-{re.sub(r'[^a-z0-9]+', '-', part.target.lower())}"
        graph = part.graph
        if part.target == HOST:
            name = f"{name}.onnx"
            files[name] = to_onnx(graph).SerializeToString()
        else:
            files.update({f"{name}/{path}": content for path, content in _files(part, style, {}).items()})
        parts.append(ProjectPart(name, part.target, graph.inputs, graph.outputs))
    files["README.md"] = _order(parts).encode()
    return tuple(parts), files


def _labels(partitioned: PartitionedGraph, own: Partition) -> dict[str, str]:
    """Map the borders of the one partition on an NPU to the inputs and outputs of the model that they stand for."""
    labels: dict[str, str] = {}
    for part in partitioned.partitions:
        for node in part.graph.nodes if part is not own else ():
            if node.op == "QuantizeLinear":
                labels[node.outputs[0]] = node.inputs[0]
            else:
                labels[node.inputs[0]] = node.outputs[0]
    return labels


def _files(part: Partition, style: ProjectStyle, labels: Mapping[str, str]) -> Mapping[str, bytes]:
    where = f"partition {part.index} ({part.target})"
    for one in backends_for(part.target):
        write_project = one.abilities().write_project
        if write_project is not None:
            try:
                return write_project(part.graph, find_target(part.target), style, labels)
            except CompileError as error:
                raise CompileError(f"{where}: {error.message}", partition=part.index, hint=error.hint) from error
    own = part.target.partition(":")[0]
    why = next((status.reason for status in backend_statuses() if status.name == own and not status.available), "")
    raise DovetailError(
        f"{where}: no backend writes {style.value} for it{f': {why}' if why else '.'}",
        hint=None if why else "It takes a VeriSilicon target (vsi:...) and the SDK: dovetail sdk install verisilicon.",
    )


def _record(partitioned: PartitionedGraph, style: ProjectStyle, parts: tuple[ProjectPart, ...]) -> bytes:
    source = partitioned.source
    document = {
        "kind": _KIND,
        "style": style.value,
        "plan": source.plan.digest,
        "inputs": list(source.graph.inputs),
        "outputs": list(source.graph.outputs),
        "parts": [
            {"path": part.path, "target": part.target, "inputs": list(part.inputs), "outputs": list(part.outputs)}
            for part in parts
        ],
    }
    return (json.dumps(document, indent=2) + "\n").encode()


def is_project_folder(record: bytes) -> bool:
    """Tell whether the bytes of a `project.json` are ours."""
    try:
        document = json.loads(record)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kind") == _KIND


def _order(parts: list[ProjectPart]) -> str:
    """Return a page that says what runs after what, and which tensors go from one to the other."""
    rows = [f"| `{part.path}` | {part.target} | {_names(part.inputs)} | {_names(part.outputs)} |" for part in parts]
    return "\n".join(
        [
            "# A model in several parts",
            "",
            "The plan places operators on the CPU between those of the NPU. The parts run from top to bottom; a tensor",
            "has the same name where it is written and where it is read. A folder is a project of its own (see its",
            "README.md); an .onnx file is what the CPU runs, for example with ONNX Runtime. Quantised tensors are",
            "handed on as they are stored: `NAME.stored.npy` of a project, integers of an .onnx file.",
            "",
            "| part | target | reads | writes |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{_shown(name)}`" for name in names)


def _shown(name: str) -> str:
    """Return a name that cannot end a cell, a code span or a line."""
    return "".join(char if " " <= char < "\x7f" and char not in "|`\\" else f"<{ord(char):x}>" for char in name)[:96]
