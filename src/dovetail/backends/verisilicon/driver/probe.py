"""Ask the vendor's compiler what a part is and which engine it gives every operator at every precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.backend.target import Engine
from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.lowering.refusals import LoweringRefusal
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.part import Part
from dovetail.backends.verisilicon.parts.figures import PartFigures
from dovetail.backends.verisilicon.parts.measured import MeasuredPart
from dovetail.backends.verisilicon.program import Program
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, Graph
from dovetail.ir.precision import Precision

_SKIP_EXECUTION = ("VIV_VX_COLLECT_PERF_TYPE", "1")
"""Compile and list the steps, but do not compute."""
_REASON_LENGTH = 160


@dataclass(frozen=True, slots=True)
class Question:
    """One graph of one operator at one precision; an operator may have several."""

    op: str
    precision: Precision
    graph: Graph


def probe_part(
    part: Part, questions: Iterable[Question], settings: Settings, told: Callable[[Question], None] = lambda _: None
) -> MeasuredPart:
    """Return what a part answers; raise CompileError when the simulator does not know it.

    An operator is refused at a precision when each of its graphs is; of several engines the first counts.
    """
    figures: PartFigures | None = None
    engines: dict[tuple[str, Precision], Engine] = {}
    refused: dict[tuple[str, Precision], str] = {}
    with GraphBench(part.sdk_name, settings, (_SKIP_EXECUTION,)) as bench:
        for question in questions:
            told(question)
            key = (question.op, question.precision)
            try:
                program = lower_graph(question.graph, part)
                figures = figures or part_figures(bench.hardware(program))
                engine = _ask(bench, program, question.graph)
            except LoweringRefusal as error:
                refused.setdefault(key, error.reason if error.always else "")
                continue
            except CompileError as error:
                refused.setdefault(key, _shortened(error.message))
                continue
            engines.setdefault(key, engine or Engine.TP)
    if figures is None:
        raise CompileError(f"{part.target}: the simulator compiles no graph for {part.sdk_name}.")
    never = {key: reason for key, reason in refused.items() if key not in engines and reason}
    return MeasuredPart(part.sdk_name, settings.folder.version, figures, engines, never)


def probe_figures(part: Part, question: Question, settings: Settings) -> PartFigures:
    """Return the figures of a part alone; raise CompileError when the simulator does not tell them."""
    with GraphBench(part.sdk_name, settings, (_SKIP_EXECUTION,)) as bench:
        return part_figures(bench.hardware(lower_graph(question.graph, part)))


def _ask(bench: GraphBench, program: Program, graph: Graph) -> Engine | None:
    sample: Mapping[str, AnyArray] = {
        name: np.zeros(graph.types[name].static_shape or (), graph.types[name].dtype.carrier) for name in graph.inputs
    }
    return bench.measure(program, (sample,), {name: graph.types[name] for name in graph.outputs}).engine


def _shortened(message: str) -> str:
    """Return the vendor's reason without names and addresses, which differ from run to run."""
    said = [line.strip() for line in message.split("|") if line.strip().startswith("E [")]
    kept = said[0].partition("]")[2] if said else message.partition(": ")[2].partition(";")[0]
    return f"the vendor's compiler refuses it: {kept[:_REASON_LENGTH].rstrip('. ')}"


def part_figures(printed: Mapping[str, str]) -> PartFigures:
    """Return the figures of a part from what the performance model prints; raise CompileError where one is missing."""
    try:
        return PartFigures(
            core=f"{printed['chipModel']}:{printed['chipRevision']}",
            nn_cores=int(printed["NumNNCores"]),
            nn_cores_16_bit=int(printed["NumNNCoresInt16"]),
            macs_per_core=int(printed["MadPerCore"]),
            tp_cores=int(printed["NumTPCores"]),
            shader_cores=int(printed["NumShaderCores"]),
            lut_lanes=int(printed["LUT_ACT_LANES"]),
            vip_sram_bytes=int(printed["VIPSRAMSize"]),
            axi_sram_bytes=int(printed["AXISRAMSize"]),
            clock_mhz=int(printed["FreqInMHZ"]),
            ddr_bytes_per_cycle=float(printed["DDRTotalBandWidthLimit"]),
        )
    except (KeyError, ValueError) as error:
        raise CompileError(
            f"the performance model does not print a figure of the part as expected: {error}."
        ) from error
