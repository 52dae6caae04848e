"""dovetail explain: what targets say of every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.boards import BoardVerb
from dovetail.cli.options import ModelVerb, TargetOption, one_of, split_commas
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.backend.target import Target, Verdict
    from dovetail.cost import ModelledPartition
    from dovetail.ir import Graph
    from dovetail.ir.precision import Precision


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
        from dovetail.report import Page, modelled_blocks, modelled_document, verdicts_page

        targets = [dovetail.find_target(name) for name in split_commas(self.target)]
        precisions = self._precisions()
        graph = self.graph()
        verdicts = dovetail.explain(graph, targets, precisions).items
        chosen = self._chosen(graph, verdicts)
        shown = [item for item in chosen if not item.supported or (self.node is not None and not self.refused)]
        parts = self._modelled(graph, targets, screen)
        document: dict[str, object] = {
            "graph": graph.digest,
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
        page = verdicts_page(chosen, shown, f"'{graph.name}' on {', '.join(split_commas(self.target))}")
        return Answer(document, Page(page.title, (*page.blocks, *modelled_blocks(parts))))

    def _modelled(self, graph: Graph, targets: Sequence[Target], screen: Screen) -> list[ModelledPartition]:
        import dovetail
        from dovetail.cost import ModelRequest, model_plan
        from dovetail.plan import Placement

        boards = self.boards([target.name for target in targets])
        found: list[ModelledPartition] = []
        cpu = dovetail.parse_placement("cpu@fp32")
        for target in targets if self.vendor else ():
            place = Placement(target.name, (self._precisions() or target.precisions)[0])
            plan = dovetail.make_plan(
                graph, dovetail.Recipe(place, (cpu,)), {target.name: target, "cpu": dovetail.find_target("cpu")}
            )
            with screen.progress(f"modelling {place}"):
                found += model_plan(graph, plan, ModelRequest(boards))
        return found

    def _precisions(self) -> tuple[Precision, ...] | None:
        from dovetail.ir.precision import Precision

        names = split_commas(self.precision)
        known = [item.value for item in Precision]
        return tuple(Precision(one_of("--precision", name, known)) for name in names) or None

    def _chosen(self, graph: Graph, verdicts: Sequence[Verdict]) -> list[Verdict]:
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
