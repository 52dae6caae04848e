"""dovetail split: a model in parts, of which one is for the accelerator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.options import ModelVerb, SamplesVerb, read_ranges
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, ExitCode
from dovetail.errors import PlanError
from dovetail.files import check_ours, write_file

if TYPE_CHECKING:
    from dovetail.ir import AnyArray, Graph
    from dovetail.plan import Plan
    from dovetail.repair.ends import ModelParts

_SAMPLES = 8
_LARGEST_ERROR = 1e-4
"""Share of an output's largest value: rounding in float32, in another order."""


@dataclass(frozen=True, kw_only=True)
class SplitVerb(SamplesVerb, ModelVerb):
    """Cut a model into parts: the core for the accelerator, and what runs before and behind it on the CPU.

    For toolchains that take one network for the NPU. With --head the branches of a detection head become outputs of
    their own, so that boxes and scores no longer share a scale; what joined and decoded them is after.onnx. With
    --plan the cut is where the plan leaves both ends to the CPU, and core.plan.json is the plan of the core. The
    parts in a row are run in float beside the model: exit code 1 says that they are not it.
    """

    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Cut where this plan leaves the ends to the CPU.")
    ] = None
    head: Annotated[bool, typer.Option("--head", help="Cut behind the last nodes with weights.")] = False
    at: Annotated[
        list[str], typer.Option("--at", metavar="TENSOR", help="Cut behind this tensor; repeat it.", show_default=False)
    ] = ()  # type: ignore[assignment]
    ranges: Annotated[
        Path | None, typer.Option("--ranges", metavar="FILE", help="Ranges, of which the core's are written.")
    ] = None
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="DATA", help="Samples to run the parts on; noise if not given.", show_default=False
        ),
    ] = None
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the parts go.")] = Path(
        "parts"
    )

    def run(self, screen: Screen) -> Answer:
        from dovetail.exporters import to_onnx
        from dovetail.repair.ends import parts_error
        from dovetail.report import Facts, Page

        graph, plan, parts = self._parts()
        files = {f"{name}.onnx": to_onnx(part).SerializeToString() for name, part in _named(parts)}
        files |= self._beside(graph, plan, parts)
        for name in files:
            check_ours(self.output / name)
        with screen.progress("running the parts"):
            error = parts_error(graph, parts, self._samples(graph))
        for name, content in files.items():
            write_file(self.output / name, content)
        sizes = {name: len(part.nodes) for name, part in _named(parts)}
        outputs = parts.core.outputs
        facts = [
            *((name, f"{count} nodes, {self.output / name}.onnx") for name, count in sizes.items()),
            ("outputs of the core", ", ".join(outputs)),
            *(("beside", str(self.output / name)) for name in files if not name.endswith(".onnx")),
            ("difference", f"{error:.2g} of an output's largest value"),
        ]
        document = {
            "files": [str(self.output / name) for name in files],
            "nodes": sizes,
            "outputs": list(outputs),
            "difference": error,
        }
        page = Page(f"'{self.model.name}' in parts", (Facts("", tuple(facts)),))
        return Answer(document, page, ExitCode.DONE if error <= _LARGEST_ERROR else ExitCode.NO)

    def _parts(self) -> tuple[Graph, Plan | None, ModelParts]:
        from dovetail.repair.ends import head_tensors, parts_at, parts_by_plan

        if (self.plan is not None) + self.head + bool(self.at) != 1:
            raise PlanError("say where to cut, in one way.", hint="--plan FILE, --head, or --at TENSOR.")
        if self.plan is not None:
            graph, plan = self.planned(self.plan)
            return graph, plan, parts_by_plan(graph, plan)
        graph = self.graph()
        return graph, None, parts_at(graph, head_tensors(graph) if self.head else tuple(self.at))

    def _beside(self, graph: Graph, plan: Plan | None, parts: ModelParts) -> dict[str, bytes]:
        from dovetail.repair.ends import plan_of_part, ranges_of_part

        files: dict[str, bytes] = {}
        if plan is not None:
            files["core.plan.json"] = plan_of_part(plan, parts.core).to_json().encode()
        if self.ranges is not None:
            ranges = ranges_of_part(read_ranges(self.ranges, graph), parts.core)
            files["core.ranges.json"] = ranges.to_json().encode()
        return files

    def _samples(self, graph: Graph) -> Iterator[Mapping[str, AnyArray]]:
        import dovetail
        from dovetail.compare import random_samples

        if self.data is None:
            return iter(random_samples(graph, _SAMPLES, seed=0))
        return (sample.inputs for sample in self.open(self.data, dovetail.specs_of(graph), limit=_SAMPLES))


def _named(parts: ModelParts) -> list[tuple[str, Graph]]:
    named = (("before", parts.before), ("core", parts.core), ("after", parts.after))
    return [(name, graph) for name, graph in named if graph is not None]
