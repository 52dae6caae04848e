"""A program as a list of kernels, with every tensor released after its last use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.backend.protocols import ExecutableAbilities, Signature
from dovetail.backends.feeds import check_feeds
from dovetail.backends.verisilicon.emulator.joining import build_joined
from dovetail.backends.verisilicon.emulator.kernel import Kernel
from dovetail.backends.verisilicon.emulator.operators import build_kernel
from dovetail.backends.verisilicon.program import Program, own_copies
from dovetail.backends.verisilicon.views import ProgramView
from dovetail.backends.wording import first_line
from dovetail.errors import DeviceError, DovetailError
from dovetail.ir import AnyArray


@dataclass(frozen=True, slots=True)
class KernelStep:
    """One operator; a tensor that nothing reads after it is released."""

    node: str
    kernel: Kernel
    inputs: tuple[int, ...]
    output: int
    dying: tuple[int, ...]
    spare: bool = False
    """It is computed with a later one: it runs only where its result is tapped."""


def build_steps(program: Program, threads: int = 1) -> tuple[KernelStep, ...]:
    """Return the steps of a program; raise DeviceError for an operator whose numbers make no sense."""
    whole = ProgramView(program)
    spare = {index for operator in program.operators for index in operator.joins}
    reads: list[tuple[int, ...]] = []
    kernels: list[Kernel] = []
    for item in whole.operators:
        try:
            if item.operator.joins:
                kernel, inputs = build_joined(whole, item, threads)
            else:
                kernel, inputs = build_kernel(item, threads), item.operator.inputs
        except DovetailError:
            raise
        except Exception as error:
            # A blob is a file: one changed byte may be a scale of 1e-300.
            node = item.operator.node
            raise DeviceError(
                f"npusim: node '{node}' cannot be computed: {first_line(error)}.", hint="Compile the model again."
            ) from error
        kernels.append(kernel)
        reads.append(inputs)
    last = {tensor: index for index, tensors in enumerate(reads) for tensor in tensors}
    steps: list[KernelStep] = []
    for index, (operator, kernel) in enumerate(zip(program.operators, kernels, strict=True)):
        (output,) = operator.outputs
        dying = {tensor for tensor in reads[index] if last[tensor] == index and tensor >= 0}
        dying |= {output} if output not in last else set()
        kept = tuple(sorted(tensor for tensor in dying if program.tensors[tensor].data is None))
        steps.append(KernelStep(operator.node, kernel, reads[index], output, kept, index in spare))
    return tuple(steps)


class Emulation:
    """Run a program on this machine, as its part would."""

    def __init__(self, program: Program, signature: Signature, threads: int = 1) -> None:
        self._program = program
        self._signature = signature
        self._copies = own_copies(program)
        self._names = dict((*program.inner, *program.inputs, *program.outputs))
        self._steps: tuple[KernelStep, ...] | None = build_steps(program, threads)
        whole = ProgramView(program)
        values = ((tensor, whole.value(tensor)) for tensor in range(len(program.tensors)))
        self._constants = {tensor: value[None] for tensor, value in values if value is not None}

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the outputs and the tapped tensors as stored values; raise DeviceError."""
        if self._steps is None:
            raise DeviceError("npusim: the executable is closed.")
        check_feeds("npusim", self._signature, inputs)
        for name in taps:
            if name not in self._names:
                raise DeviceError(f"npusim: no tensor that is computed is called '{name}'.")
        names = tuple(dict.fromkeys((*(name for name, _ in self._program.outputs), *taps)))
        samples = len(next(iter(inputs.values()))) if self._program.batched else 1
        if samples == 0:
            return {name: self._given_back(name, np.zeros((0, *self._shape(name)))) for name in names}
        alive = {tensor: self._with_samples(tensor, inputs[name]) for name, tensor in self._program.inputs}
        found = self._compute(alive, {self._names[name] for name in names})
        return {name: self._given_back(name, self._spread(found[self._names[name]], samples)) for name in names}

    def from_given(self, inputs: Mapping[str, AnyArray], given: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
        """Return tensors as they are computed from the others as they are given; raise DeviceError."""
        if self._steps is None:
            raise DeviceError("npusim: the executable is closed.")
        check_feeds("npusim", self._signature, inputs)
        copied = {self._program.operators[index].outputs[0]: tensor for index, tensor in self._copies.items()}
        # What an output of its own was copied from is what later operators read.
        tensors = {name: copied.get(self._names[name], self._names[name]) for name in given}
        alive = {tensor: self._with_samples(tensor, inputs[name]) for name, tensor in self._program.inputs}
        forced = {tensor: self._with_samples(tensor, given[name]) for name, tensor in tensors.items()}
        found = self._compute(alive, set(forced), forced)
        return {
            name: self._given_back(name, self._spread(found[tensors[name]], len(forced[tensors[name]])))
            for name in given
        }

    def abilities(self) -> ExecutableAbilities:
        """Return that it runs in several threads at a time, and from tensors that are given."""
        return ExecutableAbilities(concurrent=True, from_given=self.from_given)

    def close(self) -> None:
        """Free the kernels."""
        self._steps = None
        self._constants = {}

    def _compute(
        self, given_in: dict[int, AnyArray], wanted: set[int], forced: Mapping[int, AnyArray] | None = None
    ) -> dict[int, AnyArray]:
        """Return the wanted tensors; later steps read those that are forced as they are given."""
        assert self._steps is not None
        alive, kept = {**self._constants, **given_in}, dict[int, AnyArray]()
        spared = _spared(self._steps, wanted)
        for step in self._steps:
            if step.output in spared:
                continue
            alive[step.output] = _run_step(step, alive)
            if forced and step.output in forced:
                kept[step.output], alive[step.output] = alive[step.output], forced[step.output]
            for tensor in step.dying:
                value = alive.pop(tensor, None)
                if tensor in wanted and tensor not in kept and value is not None:
                    kept[tensor] = value
        return {tensor: kept[tensor] if tensor in kept else alive[tensor] for tensor in wanted}

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(reversed(self._program.tensors[self._names[name]].shape))

    def _with_samples(self, tensor: int, value: AnyArray) -> AnyArray:
        shape = tuple(reversed(self._program.tensors[tensor].shape))
        return value.reshape(-1, *shape)

    def _spread(self, value: AnyArray, samples: int) -> AnyArray:
        return value if len(value) == samples else np.broadcast_to(value, (samples, *value.shape[1:]))

    def _given_back(self, name: str, value: AnyArray) -> AnyArray:
        """Return `[samples, ...]` as the graph has the tensor."""
        kind = self._signature.outputs.get(name) or self._signature.inputs.get(name)
        merged = value.reshape(-1, *value.shape[2:]) if self._program.batched else value[0]
        if kind is None:
            return merged
        return merged.astype(kind.dtype.carrier, copy=False).reshape(merged.shape if kind.shape else ())


def _spared(steps: Sequence[KernelStep], wanted: set[int]) -> set[int]:
    """Return the outputs of steps that need not run: nothing that runs reads them."""
    spared: set[int] = set()
    needed = set(wanted)
    for step in reversed(steps):
        if step.spare and step.output not in needed:
            spared.add(step.output)
        elif step.spare:
            needed.update(step.inputs)
    return spared


def _run_step(step: KernelStep, alive: Mapping[int, AnyArray]) -> AnyArray:
    try:
        return step.kernel([alive[tensor] if tensor >= 0 else None for tensor in step.inputs])
    except DovetailError:
        raise
    except Exception as error:
        # Whatever numpy or ONNX Runtime raises: the caller gets one kind of error with the node's name.
        raise DeviceError(f"npusim: node '{step.node}': {first_line(error)}.") from error
