"""The compiled model as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dovetail.backend.protocols import Blob, Signature
from dovetail.errors import BundleError
from dovetail.ir.types import TensorType
from dovetail.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class CompiledPartition:
    """One compiled partition and what it was compiled for.

    `tensors` types every tensor of the partition, so that a run can be asked to tap it. `nodes`, `macs` (for one
    sample; None where shapes are not static), the number of units and the prediction are for people who look at it.
    """

    target: str
    backend: str
    backend_version: str
    blob: Blob
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, TensorType]
    nodes: tuple[str, ...] = ()
    macs: int | None = None
    units: int | None = None
    predicted_ns: float | None = None
    """What its units should take, as the figures of `predicted_by` say."""
    predicted_by: str = ""
    engines: Mapping[str, int] = field(default_factory=dict)
    """Its units by the part of the processor that runs them, as the target says: NN, TP, SH, CPU."""
    constant_bytes: int | None = None
    alive_bytes: int | None = None
    """What is alive at once where its nodes run in order, inputs and outputs included; for one sample."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """What a place has to have to run it, by name, as its backend says."""

    @property
    def signature(self) -> Signature:
        """Return the types of the inputs and outputs."""
        return Signature(
            {name: self.tensors[name] for name in self.inputs}, {name: self.tensors[name] for name in self.outputs}
        )


@dataclass(frozen=True, slots=True)
class Bundle:
    """A compiled model: partitions in schedule order, the plan, and the types of inputs and outputs.

    `origins` maps a tensor to its name in the source file where they differ.
    """

    name: str
    plan: Plan
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    partitions: tuple[CompiledPartition, ...]
    origins: Mapping[str, str]

    @property
    def tensors(self) -> Mapping[str, TensorType]:
        """Return the type of every tensor that the model computes or reads."""
        tensors = dict(self.inputs)
        for part in self.partitions:
            tensors.update(part.tensors)
        return tensors

    @property
    def memory_bytes(self) -> int | None:
        """Return constants, and the most that is alive at once, for one sample; None where a partition does not say.

        A program, its libraries and what a driver keeps for itself are not in it.
        """
        last = {name: index for index, part in enumerate(self.partitions) for name in part.inputs}
        last |= dict.fromkeys(self.outputs, len(self.partitions))
        types, most, constants = self.tensors, 0, 0
        made = set(self.inputs)
        for index, part in enumerate(self.partitions):
            if part.constant_bytes is None or part.alive_bytes is None:
                return None
            own = {*part.inputs, *part.outputs}
            kept = [types[name].size_bytes() for name in made if last.get(name, -1) > index and name not in own]
            most = max(most, part.alive_bytes + sum(size or 0 for size in kept))
            constants += part.constant_bytes
            made |= set(part.outputs)
        return constants + most

    def check(self) -> None:
        """Raise BundleError when a partition reads what nothing before it makes, or an output is missing."""
        known = dict(self.inputs)
        for index, part in enumerate(self.partitions):
            signature = part.signature
            for name, kind in signature.inputs.items():
                if known.get(name) != kind:
                    how = "as another type" if name in known else "which nothing before it makes"
                    raise BundleError(f"bundle '{self.name}': partition {index} reads '{name}' {how}.")
            known.update(signature.outputs)
        for name, kind in self.outputs.items():
            if known.get(name) != kind:
                how = "of this type" if name in known else "at all"
                raise BundleError(f"bundle '{self.name}': no partition makes output '{name}' {how}.")
