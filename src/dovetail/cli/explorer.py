"""Plans for Model Explorer, as `dovetail export --format model-explorer` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli.verb import Answer
from dovetail.files import write_file

if TYPE_CHECKING:
    from dovetail.ir import Graph
    from dovetail.plan import Plan

EXPLORER = "model-explorer"


def write_explorer(graph: Graph, plan: Plan, beside: Path, output: Path, *, replace: bool) -> Answer:
    """Write the graph to `output` and node data beside it; `beside` is the plan's file, whose folder may say more."""
    from dovetail.report import Facts, Page
    from dovetail.report.explorer import explorer_files
    from dovetail.report.view import VIEW_FILE, load_view

    network = load_view(beside.parent).network if (beside.parent / VIEW_FILE).is_file() else None
    if network is not None and {node for unit in network.units for node in unit.nodes} != {
        node.name for node in graph.nodes
    }:
        network = None
    files = explorer_files(graph, plan, network)
    texts = {output: files.graph}
    texts |= {output.with_name(f"{output.stem}.{name}.json"): text for name, text in files.node_data.items()}
    # Node data says nowhere whose it is: it is ours where the graph that it belongs to is.
    replace = replace or output.is_file()
    for path, text in texts.items():
        write_file(path, text, replace=replace)
    document = {
        "format": EXPLORER,
        "files": [str(path) for path in texts],
        "graph": graph.digest,
        "plan": plan.digest,
        "figures": network is not None,
    }
    facts = [("format", f"{EXPLORER} (Model Explorer)"), *(("file", str(path)) for path in texts)]
    note = "open the first as a model, the others as node data"
    if network is None:
        note += "; noise and time come with the plan of 'dovetail tune', in its folder"
    return Answer(document, Page(f"Plan of '{graph.name}' as {EXPLORER}", (Facts("", (*facts, ("note", note))),)))
