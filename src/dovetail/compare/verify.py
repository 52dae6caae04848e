"""Verify: the same partitions on another backend, every output and every operator counted in steps.

What is deployed comes first, on every sample. Operators are judged from equal inputs, so that a difference is named
where it arises and not wherever it has spread to. To ask for inner tensors makes another binary, in which the compiler
joins less: they are believed only where its outputs are those of the deployed one, and else the partition is cut
between what is computed as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.backend.registry import backend
from dovetail.compare.inside import PartRun, look_inside
from dovetail.compare.sides import Arrays, Runs, Sides, opened, steps_of
from dovetail.compare.steps import Steps
from dovetail.compare.verification import InsideLook, Verification, VerifiedTensor
from dovetail.errors import DataError, DeviceNotFound
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.types import TensorType
from dovetail.partition.partitioned import Partition
from dovetail.runtime.place import Runtime

OURS = "npusim"
_CPU = "cpu"


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Against which backend, on how many of the samples operators are looked at too, and with how many cuts at most."""

    against: str = "vsi"
    operator_samples: int = 1
    most_cuts: int = 16
    advance: Callable[[int], None] = field(default=lambda done: None)
    place: Runtime | None = None
    """Where the other backend runs what it compiled here: a board; None is this machine."""


def verify(
    parts: Sequence[Partition],
    outputs: Sequence[str],
    samples: Sequence[Arrays],
    request: VerifyRequest | None = None,
) -> Verification:
    """Return how far the partitions that the other backend serves agree; the rest runs as it always does.

    `outputs` are the whole graph's; samples hold stored values. Raises DeviceNotFound when the other backend cannot be
    had or serves none of the targets, CompileError when it refuses a partition.
    """
    options = request or VerifyRequest()
    served = check_served(options.against, parts)
    ours, theirs = ([dict(sample) for sample in samples] for _ in range(2))
    runs: list[PartRun] = []
    for done, part in enumerate(parts):
        name = _CPU if part.target == _CPU else OURS
        _run(part, name, ours)
        if part.target not in served:
            _run(part, name, theirs)
        else:
            with _sides(options, part).other(part.graph) as other:
                runs.append(_run_by(other, part, theirs))
        options.advance((done + 1) * len(samples) // len(parts))
    rows, looks = _inside(runs, options)
    names = dict.fromkeys((*outputs, *(name for run in runs for name in run.part.graph.outputs)))
    listed = _listed(parts, steps_of([{name: one[name] for name in names} for one in ours], theirs))
    return Verification(options.against, len(samples), listed, rows, looks)


def check_served(against: str, parts: Sequence[Partition]) -> frozenset[str]:
    """Return the targets that a backend serves; raise DeviceNotFound when none of the partitions' is among them."""
    served = frozenset(target.name for target in backend(against).targets())
    if not served & {part.target for part in parts}:
        wanted = ", ".join(dict.fromkeys(part.target for part in parts))
        raise DeviceNotFound(
            f"backend '{against}' serves none of {wanted}.", hint=f"It serves {', '.join(sorted(served))}."
        )
    return served


def random_samples(graph: Graph, count: int, seed: int) -> list[Arrays]:
    """Return samples of random stored values, one at a time: every integer of a type, normal numbers for floats."""
    if seed < 0:
        raise DataError(f"seed {seed} begins no random numbers.", hint="Give 0 or more.", option="seed")
    random = np.random.default_rng(seed)
    return [{name: _random(graph.types[name], random) for name in graph.inputs} for _ in range(count)]


def _random(kind: TensorType, random: np.random.Generator) -> AnyArray:
    shape = [dim if isinstance(dim, int) else 1 for dim in kind.shape or ()]
    carrier = np.dtype(kind.dtype.carrier)
    if carrier.kind == "f":
        return np.asarray(random.standard_normal(shape), dtype=carrier)
    low, high = (0, 1) if carrier.kind == "b" else kind.dtype.integer_range
    return np.asarray(random.integers(low, high, shape, endpoint=True, dtype=np.int64)).astype(carrier)


def _run(part: Partition, name: str, values: Sequence[dict[str, AnyArray]]) -> PartRun:
    """Run a partition on a backend, and add what it gives to the values of every sample."""
    with opened(backend(name), part.graph, part.target) as executable:
        return _run_by(executable.run, part, values)


def _run_by(run: Runs, part: Partition, values: Sequence[dict[str, AnyArray]]) -> PartRun:
    fed = tuple({tensor: one[tensor] for tensor in part.graph.inputs} for one in values)
    found = tuple(dict(run(one)) for one in fed)
    for one, made in zip(values, found, strict=True):
        one.update(made)
    return PartRun(part, fed, found)


def _sides(options: VerifyRequest, part: Partition) -> Sides:
    return Sides(backend(OURS), backend(options.against), part.target, options.place)


def _listed(parts: Sequence[Partition], totals: Mapping[str, Steps]) -> tuple[VerifiedTensor, ...]:
    """Return the rows of outputs, each with the target of the partition that it leaves."""
    makers = {name: part.target for part in parts for name in part.graph.outputs}
    return tuple(VerifiedTensor(name, "", "", makers.get(name, ""), steps) for name, steps in totals.items())


def _inside(
    runs: Sequence[PartRun], options: VerifyRequest
) -> tuple[tuple[VerifiedTensor, ...], tuple[InsideLook, ...]]:
    if options.operator_samples < 1:
        return (), ()
    rows: list[VerifiedTensor] = []
    looks: list[InsideLook] = []
    for run in runs:
        found, look = look_inside(run, _sides(options, run.part), options.operator_samples, options.most_cuts)
        rows += found
        looks.append(look)
    return tuple(rows), tuple(looks)
