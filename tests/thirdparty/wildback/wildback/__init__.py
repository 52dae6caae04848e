"""A backend that says yes to everything; each of its targets misbehaves in one way on every Sigmoid."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dovetail.backend.arithmetic import EXACT, Arithmetic
from dovetail.backend.protocols import (
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    ExecutableAbilities,
    Signature,
)
from dovetail.backend.target import Engine, Target, TargetVerdict
from dovetail.backends.reference import run_graph
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, Graph, Node, graph_from_bytes, graph_to_bytes
from dovetail.ir.precision import Precision

COMPILING = ("refuses", "raises", "crashes", "exits", "hangs", "babbles", "together", "starves")
RUNNING = ("run-raises", "run-crashes", "run-hangs", "run-nan", "run-shape", "run-type", "run-nothing")
BAD, WORSE = "Sigmoid", "Abs"


@dataclass(frozen=True)
class WildTarget:
    name: str
    title: str = "Says yes"
    precisions: tuple[Precision, ...] = (Precision.FP32,)
    arithmetic: Arithmetic = EXACT
    mark: str = ""

    def verdict(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        if precision is not Precision.FP32:
            return TargetVerdict(node.name, node.op, self.name, precision, None, "only at fp32")
        return TargetVerdict(node.name, node.op, self.name, precision, Engine.NN)


class WildBackend:
    name = "wildback"
    version = "1.0"

    def targets(self) -> Sequence[Target]:
        return tuple(WildTarget(f"wild:{way}") for way in (*COMPILING, *RUNNING))

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        way, ops = target.name.partition(":")[2], {node.op for node in graph.nodes}
        if BAD in ops and (way != "together" or WORSE in ops):
            _misbehave(way)
        return Blob("wild", graph_to_bytes(graph))

    def devices(self) -> Sequence[Device]:
        return tuple(WildDevice(target.name) for target in self.targets())

    def abilities(self) -> BackendAbilities:
        return BackendAbilities()


def _misbehave(way: str) -> None:
    match way:
        case "refuses":
            raise CompileError("internal compiler error 42.")
        case "raises":
            raise ZeroDivisionError("a defect")
        case "starves":
            os.kill(os.getpid(), signal.SIGKILL)
        case "crashes" | "together":
            os.write(1, b"about to touch address 0\n")
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exits":
            os._exit(3)
        case "hangs":
            _hang()
        case "babbles":
            os.write(1, b"progress 100%\n" * 10_000)
            raise CompileError("too much to say.")


def _hang() -> None:
    """Do nothing for ever; the file that WILDBACK_HANGS names, where there is one, is made before."""
    if "WILDBACK_HANGS" in os.environ:
        Path(os.environ["WILDBACK_HANGS"]).touch()
    while True:
        time.sleep(3600)


@dataclass(frozen=True)
class WildDevice:
    name: str

    def accepts(self, target: str) -> bool:
        return target == self.name

    def load(self, blob: Blob, signature: Signature) -> Executable:
        return WildExecutable(graph_from_bytes(blob.payload), self.name.partition(":")[2])


@dataclass
class WildExecutable:
    graph: Graph
    way: str

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        values = run_graph(self.graph, inputs)
        found = {name: values[name] for name in self.graph.outputs}
        if not any(node.op == BAD for node in self.graph.nodes):
            return found
        match self.way:
            case "run-raises":
                raise ZeroDivisionError("a defect")
            case "run-crashes":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "run-hangs":
                _hang()
            case "run-nan":
                return {name: np.full_like(value, np.nan) for name, value in found.items()}
            case "run-shape":
                return {name: value.reshape(-1) for name, value in found.items()}
            case "run-type":
                return {name: value.astype(np.float64) for name, value in found.items()}
            case "run-nothing":
                return {}
        return found

    def close(self) -> None:
        pass

    def abilities(self) -> ExecutableAbilities:
        return ExecutableAbilities()


backend: Backend = WildBackend()
