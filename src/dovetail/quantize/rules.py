"""Models as they came, quantised or not, by the integer rules of the program that they were made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.backend.protocols import CompileOptions, Executable, Signature
from dovetail.backend.registry import backend, find_device, find_target
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph

_BACKEND = "reference"


@dataclass(frozen=True, slots=True)
class RuledModel:
    """A model that runs by the rules of a target."""

    rules: str
    """The rules that it follows: of those that have several forms, the form that holds on this machine."""
    executable: Executable

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the outputs, and the tensors that are tapped."""
        return self.executable.run(inputs, taps)

    def close(self) -> None:
        """Release what it holds."""
        self.executable.close()


def load_by_rules(graph: Graph, target: str) -> RuledModel:
    """Return a model as it came, quantised or not, ready to run on the reference by the rules of a target.

    `reference:tflite` gives the integers of LiteRT's reference kernels. ONNX Runtime's rules have two forms:
    `reference:ort-wide` and, for x86 without VNNI, `reference:ort-pairs`; `reference:ort` is the one that holds on this
    machine, and the model names it. Raise CompileError for what the reference has no kernel for.
    """
    rules = find_target(target)
    blob = backend(_BACKEND).compile(graph, rules, CompileOptions())
    executable = find_device(_BACKEND, rules.name).load(blob, Signature.of(graph))
    return RuledModel(rules.name, executable)
