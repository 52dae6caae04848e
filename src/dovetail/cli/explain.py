"""dovetail explain: what targets say of every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.boards import BoardVerb
from dovetail.cli.loading import open_text
from dovetail.cli.options import ModelVerb, TargetOption, precisions_of
from dovetail.cli.render import Screen
from dovetail.cli.texts import split_commas
from dovetail.cli.verb import Answer
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.backend.target import TargetVerdict
    from dovetail.ir import Graph


@dataclass(frozen=True, kw_only=True)
class Explain(BoardVerb, ModelVerb):
    """Say which nodes a target runs, and why not the others.

    Without --node and --refused only nodes that some precision refuses are listed. With --vendor the vendor's
    performance model tells what each operator takes, on which engine and in which buffers, at the first precision.
    """

    target: TargetOption
    precision: Annotated[
        list[str], typer.Option("--precision", metavar="NAME", help="Precision, such as i8pc; all of the target's.")
    ] = field(default_factory=list)
    node: Annotated[
        str | None, typer.Option("--node", metavar="GLOB", help="Only nodes of these names, here or in the source.")
    ] = None
    refused: Annotated[bool, typer.Option("--refused", help="Only what is refused.")] = False

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.ir.open_shapes import open_inputs
        from dovetail.plan import Placement
        from dovetail.report import Page, Tone, modelled_blocks, modelled_document, verdicts_page

        targets = [dovetail.find_target(name) for name in split_commas(self.target)]
        precisions = precisions_of(self.precision)
        graph = self.graph()
        verdicts = dovetail.explain(graph, targets, precisions or None).items
        chosen = self._chosen(graph, verdicts)
        shown = [item for item in chosen if not item.supported or (self.node is not None and not self.refused)]
        places = [Placement(target.name, (precisions or target.precisions)[0]) for target in targets]
        parts = self.modelled_places(graph, places, screen)
        document: dict[str, object] = {
            "graph": graph.digest,
            "open_inputs": sorted(open_inputs(graph)),
            "verdicts": [
                {
                    "node": item.node,
                    "op": item.op,
                    "target": item.target,
                    "precision": item.precision.value,
                    "supported": item.supported,
                    "engine": None if item.engine is None else item.engine.value,
                    "reason": item.reason,
                }
                for item in chosen
                if not (self.refused and item.supported)
            ],
        }
        if self.vendor:
            document["modelled"] = modelled_document(parts)
        page = verdicts_page(chosen, shown, f"'{self.model.name}' on {', '.join(split_commas(self.target))}")
        return Answer(document, Page(page.title, (*page.blocks, *modelled_blocks(parts)), open_text(graph), Tone.BAD))

    def _chosen(self, graph: Graph, verdicts: Sequence[TargetVerdict]) -> list[TargetVerdict]:
        pattern = self.node
        if pattern is None:
            return list(verdicts)
        names = {
            node.name for node in graph.nodes if any(fnmatchcase(name, pattern) for name in (node.name, *node.origin))
        }
        if not names:
            raise DovetailError(
                f"--node '{pattern}' matches no node of '{graph.name}'.", hint="Run 'dovetail explain' without it."
            )
        return [item for item in verdicts if item.node in names]
