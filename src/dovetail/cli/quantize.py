"""dovetail quantize: the model with quantised tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.options import ModelVerb, PlanOption, RangesBesideOption, read_ranges
from dovetail.cli.ranges import ranges_file
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.errors import DovetailError
from dovetail.files import check_ours, write_file

if TYPE_CHECKING:
    from dovetail.ir import Graph


@dataclass(frozen=True, kw_only=True)
class Quantize(ModelVerb):
    """Quantise a model as a plan says.

    It is written as ONNX with Q/DQ pairs, or as a Dovetail graph (.dvg).
    """

    plan: PlanOption
    ranges: RangesBesideOption = None
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A .onnx or .dvg file.")]

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.report import Facts, Page

        content = self._writer()
        check_ours(self.output)
        graph, plan = self.planned(self.plan)
        ranges = read_ranges(ranges_file(self.ranges, self.plan, graph, screen), graph)
        quantized = dovetail.quantize(graph, plan, ranges)
        write_file(self.output, content(quantized.graph))
        stored = Counter(kind.dtype.value for kind in quantized.graph.types.values() if kind.quant is not None)
        document = {
            "output": str(self.output),
            "graph": graph.digest,
            "plan": plan.digest,
            "quantised": quantized.graph.digest,
            "nodes": len(quantized.graph.nodes),
            "boundaries": len(quantized.boundaries),
            "tensors": dict(stored.most_common()),
        }
        facts = (
            ("file", str(self.output)),
            ("nodes", f"{len(quantized.graph.nodes)}, {len(quantized.boundaries)} of them boundaries"),
            ("quantised tensors", ", ".join(f"{count} {name}" for name, count in stored.most_common()) or "none"),
            ("digest", quantized.graph.digest),
        )
        return Answer(document, Page(f"Quantised '{self.model.name}'", (Facts("", facts),)))

    def _writer(self) -> Callable[[Graph], bytes]:
        from dovetail.exporters import to_onnx
        from dovetail.ir import graph_to_bytes

        match self.output.suffix.lower():
            case ".dvg":
                return graph_to_bytes
            case ".onnx":
                return lambda graph: to_onnx(graph).SerializeToString()
        raise DovetailError(f"{self.output}: neither .onnx nor .dvg.", hint="For example -o model.qdq.onnx.")
