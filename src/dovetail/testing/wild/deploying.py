"""Wild cases as a part gets them: what its verdict accepts is quantised, cut out, lowered, run and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import NamedTuple

from dovetail.backend.protocols import Signature
from dovetail.backends.reference import run_graph
from dovetail.backends.verisilicon.driver.bench import GraphBench
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.part import VsiProfile
from dovetail.backends.verisilicon.program import Program
from dovetail.compare.steps import Steps, compare_steps
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, Graph
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Override, Placement, Plan
from dovetail.plan.placement import HOST
from dovetail.quantize import Quantizer
from dovetail.testing.wild.case import WildCase

_SAMPLES = 3
_NONE = Steps()


class WildOutcome(Enum):
    """What became of a case at one precision on one part."""

    EQUAL = "equal"
    DIFFERS = "differs"
    REFUSED = "refused"
    """The verdict accepts no node."""
    LATE = "refused late"
    """The verdict accepts what lowering refuses."""
    BROKEN = "broken"
    """Our own code stops with an error that is none of its own."""
    VENDOR = "vendor refuses"
    """The vendor's compiler or simulator refuses what the verdict accepts, or dies of it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of a case."""

    outcome: WildOutcome
    nodes: int = 0
    """Nodes of the float graph that the part takes."""
    steps: Steps = _NONE
    reason: str = ""

    @property
    def is_wrong(self) -> bool:
        """Tell whether the part did not keep its word."""
        return self.outcome not in (WildOutcome.EQUAL, WildOutcome.REFUSED)


class Deployed(NamedTuple):
    """One partition: the quantised graph, its program, and stored samples."""

    graph: Graph
    program: Program
    samples: tuple[Mapping[str, AnyArray], ...]


def deploy(case: WildCase, profile: VsiProfile, precision: Precision) -> tuple[int, list[Deployed]]:
    """Return how many nodes the verdict accepts, and their partitions; raise CompileError where one is not lowered."""
    graph = case.graph
    refused, raised = Override(Placement(HOST, Precision.FP32), "refused"), Placement(profile.name, Precision.I16)
    overrides: dict[str, Override] = {}
    for node in graph.nodes:
        if node.name in case.raised and profile.capability(graph, node, Precision.I16).supported:
            overrides[node.name] = Override(raised, "raised")
        elif not profile.capability(graph, node, precision).supported:
            overrides[node.name] = refused
    away = sum(item is refused for item in overrides.values())
    if away == len(graph.nodes):
        return 0, []
    plan = Plan(graph.digest, Placement(profile.name, precision), overrides)
    quantised = Quantizer(graph, case.calibration()).quantize(plan)
    parts = [part.graph for part in partition(quantised).partitions if part.target == profile.name]
    programs = [lower_graph(part, profile.part) for part in parts]
    wanted = tuple(dict.fromkeys(name for part in parts for name in part.inputs))
    whole = quantised.graph.evolve(outputs=tuple(name for name in wanted if name not in graph.inputs))
    values = [
        {**sample, **run_graph(whole, sample, profile.arithmetic)} if whole.outputs else sample
        for sample in case.samples(_SAMPLES)
    ]
    samples = [tuple({name: value[name] for name in part.inputs} for value in values) for part in parts]
    found = [Deployed(*entry) for entry in zip(parts, programs, samples, strict=True)]
    return len(graph.nodes) - away, found


class SimulatorJudge:
    """Compare the emulator with the vendor's simulator of one part; a context manager."""

    def __init__(self, profile: VsiProfile, settings: Settings) -> None:
        self._profile = profile
        # Shader kernels are compiled once per process: what is run alone does not end the process that has them.
        self._shared, self._alone = (GraphBench(profile.part.sdk_name, settings) for _ in range(2))

    def __enter__(self) -> SimulatorJudge:
        """Return the judge."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the simulator."""
        self.close()

    def close(self) -> None:
        """End the simulator; a second call does nothing."""
        self._shared.close()
        self._alone.close()

    def judge(self, case: WildCase, precision: Precision, *, confirmed: bool = True) -> Finding:
        """Return what becomes of a case; `confirmed`: what differs is run again in a process of its own."""
        try:
            nodes, deployed = deploy(case, self._profile, precision)
        except CompileError as error:
            return Finding(WildOutcome.LATE, reason=error.message)
        if not nodes:
            return Finding(WildOutcome.REFUSED)
        steps = _NONE
        for part in deployed:
            try:
                steps += self._compare(part, confirmed=confirmed)
            except CompileError as error:
                return Finding(WildOutcome.VENDOR, nodes, reason=error.message)
        return Finding(WildOutcome.DIFFERS if steps.differing else WildOutcome.EQUAL, nodes, steps)

    def _compare(self, part: Deployed, *, confirmed: bool) -> Steps:
        emulation = Emulation(part.program, Signature.of(part.graph))
        ours = [emulation.run(sample) for sample in part.samples]
        outputs = {name: part.graph.types[name] for name in part.graph.outputs}
        steps = Steps()
        for bench in (self._shared, self._alone) if confirmed else (self._shared,):
            theirs = bench.measure(part.program, part.samples, outputs, fresh=bench is self._alone).results
            steps = sum(
                (
                    compare_steps(mine[name], found[name])
                    for mine, found in zip(ours, theirs, strict=True)
                    for name in outputs
                ),
                _NONE,
            )
            if not steps.differing:
                break
        self._alone.close()
        return steps
