"""A backend that knows how long nodes take and nothing else: its performance model says what RECORDS hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dovetail.backend.arithmetic import EXACT
from dovetail.backend.costs import Figure, Quality
from dovetail.backend.modelled import BoardSettings, ModelledGraph, OperatorCycles
from dovetail.backend.protocols import Backend, BackendAbilities, Blob, CompileOptions, Device
from dovetail.backend.target import Engine, HardwareFacts, OperatorRule, Target, TargetProfile
from dovetail.errors import CompileError
from dovetail.ir import Graph, Node
from dovetail.ir.precision import Precision

_PRECISIONS = (Precision.U8, Precision.I16, Precision.FP32)
_ARRAY = frozenset({"Conv", "Add", "Relu"})
_SHADERS = frozenset({"Sigmoid", "Softmax", "Mul", "Clip", "HardSigmoid"})

FACTS = HardwareFacts(
    nn_cores=1,
    macs_per_cycle=100,
    clock_hz=1_000_000_000,
    ddr_bytes_per_cycle=4.0,
    sram_bytes=0,
    sdk_name="",
    source="made up",
)
TARGET = TargetProfile(
    name="clock:one",
    title="A part with a clock",
    precisions=_PRECISIONS,
    rules=(
        OperatorRule(_ARRAY, frozenset(_PRECISIONS), Engine.NN),
        OperatorRule(_SHADERS, frozenset(_PRECISIONS), Engine.SH),
    ),
    arithmetic=EXACT,
    hardware=FACTS,
)
BARE = replace(TARGET, name="clock:bare", title="A part of which nothing is known", hardware=None)
RECORDS: list[OperatorCycles] = []
"""What the model knows; tests put records here."""
MISSING: list[str] = []
"""Operations that the model has no record of."""


class Offered:
    """Prices Softmax, as a backend that knows better than a roofline."""

    def latency(self, graph: Graph, nodes: Sequence[Node], target: str, precision: Precision) -> Figure | None:
        known = target == TARGET.name and nodes[0].op == "Softmax"
        return Figure(77.0, Quality.MODELLED, "the clock") if known else None


class ClockBackend:
    name = "clockback"
    version = "1.0"

    def targets(self) -> Sequence[Target]:
        return (TARGET, BARE)

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        raise CompileError("clockback has no compiler.")

    def devices(self) -> Sequence[Device]:
        return ()

    def abilities(self) -> BackendAbilities:
        return BackendAbilities(cost_sources=lambda: (Offered(),), model_cycles=_model)


def _model(graph: Graph, target: Target, board: BoardSettings) -> ModelledGraph:
    names = {node.name for node in graph.nodes}
    return ModelledGraph(
        target=target.name,
        clock_mhz=board.clock_mhz or 500.0,
        ddr_bytes_per_cycle=board.ddr_bytes_per_cycle or 3.5,
        operators=tuple(record for record in RECORDS if record.node in names),
        missing=len(MISSING),
        version="7.1",
        facts={},
    )


backend: Backend = ClockBackend()
