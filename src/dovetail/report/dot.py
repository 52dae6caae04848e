"""Drawings of placements as graphviz reads them: every node with its place, or the partitions and what crosses."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from shutil import which

from dovetail.errors import DovetailError
from dovetail.ir.graph import Graph
from dovetail.ir.macs import graph_macs
from dovetail.partition.partitioned import PartitionedGraph
from dovetail.plan.plan import Plan
from dovetail.report.figures import bytes_text, count_text

_COLOURS = ("#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9", "#fce5cd", "#d0e0e3", "#ead1dc")
_SHOWN = 6
_LAYOUT_S = 120
_STYLE = "  rankdir=TB; node [shape=box, style=filled, fontname=sans]; edge [fontname=sans];"
_MARK = "# Made by dovetail"


def draw_plan(graph: Graph, plan: Plan) -> str:
    """Return a drawing of every node, coloured by its placement."""
    colours = _colours([str(plan.placement(node.name)) for node in graph.nodes])
    lines = [_MARK, "digraph plan {", _STYLE]
    for name in graph.inputs:
        lines.append(f"  {_label('in ' + name)} [label={_label(name)}, shape=oval, fillcolor=white];")
    for node in graph.nodes:
        place = str(plan.placement(node.name))
        label = _label(node.name, node.op, place)
        lines.append(f'  {_label(node.name)} [label={label}, fillcolor="{colours[place]}"];')
    for node in graph.nodes:
        for tensor in dict.fromkeys(node.inputs):
            maker = graph.producers.get(tensor)
            if maker is not None:
                crosses = plan.placement(maker.name) != plan.placement(node.name)
                style = " [color=red, penwidth=2]" if crosses else ""
                lines.append(f"  {_label(maker.name)} -> {_label(node.name)}{style};")
            elif tensor in graph.inputs:
                lines.append(f"  {_label('in ' + tensor)} -> {_label(node.name)};")
    return "\n".join([*lines, "}"]) + "\n"


def draw_partitions(partitioned: PartitionedGraph) -> str:
    """Return a drawing of the partitions: target, nodes, multiply-accumulates, and the tensors that cross."""
    colours = _colours([part.target for part in partitioned.partitions])
    lines = [_MARK, "digraph partitions {", _STYLE]
    for part in partitioned.partitions:
        names = [node.name for node in part.graph.nodes]
        more = [f"... {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        macs = graph_macs(part.graph)
        work = "" if macs is None else f", {count_text(macs)} MACs"
        head = (f"{part.index}: {part.target}", f"{len(names)} node{'s' if len(names) != 1 else ''}{work}", "")
        label = _label(*head, *names[:_SHOWN], *more)
        lines.append(f'  p{part.index} [label={label}, fillcolor="{colours[part.target]}"];')
    for border in partitioned.borders:
        label = _label(border.name, bytes_text(border.size_bytes))
        lines += [f"  p{border.producer} -> p{user} [label={label}];" for user in border.consumers]
    return "\n".join([*lines, "}"]) + "\n"


def svg_of(drawing: str) -> bytes:
    """Return a drawing as SVG through graphviz; raise DovetailError where it is not installed or fails."""
    program = which("dot")
    if program is None:
        raise DovetailError(
            "drawing as SVG needs graphviz, which is not installed.",
            hint="Write a .dot file instead, or install graphviz.",
        )
    try:
        done = subprocess.run([program, "-Tsvg"], input=drawing.encode(), capture_output=True, timeout=_LAYOUT_S)
    except subprocess.TimeoutExpired as error:
        raise DovetailError(f"graphviz did not end within {_LAYOUT_S} s.", hint="Write a .dot file.") from error
    if done.returncode != 0:
        raise DovetailError(f"graphviz: {done.stderr.decode(errors='replace').strip()[:200]}.")
    return done.stdout.replace(b"<svg", f"<!-- {_MARK} -->\n<svg".encode(), 1)


def _colours(places: Sequence[str]) -> Mapping[str, str]:
    return {place: _COLOURS[index % len(_COLOURS)] for index, place in enumerate(dict.fromkeys(places))}


def _label(*lines: str) -> str:
    """Quote lines of text; neither quotes nor backslashes of a name mean anything."""
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'
