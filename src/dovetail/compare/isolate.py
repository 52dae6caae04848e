"""The error that a layer adds by itself: only its unit is quantised, all others stay in float.

A layer's error in a quantised model is mostly that of the layers before it; this one is its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dovetail.backend.protocols import CompileOptions, Fidelity
from dovetail.backend.registry import backend
from dovetail.bundle.bundle import Bundle
from dovetail.compile import CompileRequest, compile_model
from dovetail.data.sample import Sample
from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.ir.types import Quantization
from dovetail.partition import partition
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override, Plan
from dovetail.plan.units import Unit, find_units
from dovetail.quantize.calibrate import load_float
from dovetail.quantize.quantizer import Quantizer
from dovetail.quantize.ranges import Range, Ranges
from dovetail.runtime.session import Session, open_session

_SAMPLES = 4
_FLOAT = Placement(HOST, Precision.FP32)


def isolated_errors(
    graph: Graph,
    bundle: Bundle,
    samples: Sequence[Sample],
    tensors: Sequence[str],
    progress: Callable[[str, int], None],
) -> dict[str, float]:
    """Return for every tensor the relative error of its worst channel when only its unit is quantised.

    RMS of the noise over RMS of the signal, in fast simulation on the first few samples, with the scales of the
    bundle. A unit in float adds 0.
    """
    few = samples[:_SAMPLES]
    golden = _golden(graph, few, tensors)
    quantizer = Quantizer(graph, bundle_ranges(graph, bundle))
    backends = {part.target: part.backend for part in bundle.partitions}
    simulated = [name for name, owner in backends.items() if "fidelity" in backend(owner).abilities().options]
    fast = dict.fromkeys(simulated, CompileOptions(fidelity=Fidelity.FAST))
    request = CompileRequest(backends=backends, per_target=fast)
    names = set(tensors)
    errors: dict[str, float] = {}
    for done, unit in enumerate(_units(graph, bundle.plan)):
        watched = [name for node in unit.nodes for name in graph.node(node).outputs if name in names]
        if not bundle.plan.placement(unit.nodes[0]).precision.is_quantized:
            errors.update(dict.fromkeys(watched, 0.0))
        elif watched:
            alone = compile_model(partition(quantizer.quantize(_only(bundle.plan, unit))), request)
            with open_session(alone) as session:
                errors.update(_errors(session, few, watched, golden))
        progress("each layer alone", done + 1)
    return errors


def bundle_ranges(graph: Graph, bundle: Bundle) -> Ranges:
    """Return the ranges that the scales of a bundle stand for."""
    ranges: dict[str, Range] = {}
    for name, kind in bundle.tensors.items():
        origin = bundle.origins.get(name, name)
        for tensor in (name, origin, name.rpartition("@")[0]):
            if kind.quant is not None and kind.quant.axis is None and tensor in graph.types:
                ranges.setdefault(tensor, _range(kind.dtype, kind.quant))
    return Ranges(graph.digest, "bundle", 0, ranges)


def _range(dtype: DType, quant: Quantization) -> Range:
    scale, zero = quant.scale[0], quant.zero_point[0]
    lowest, highest = dtype.integer_range
    power_of_two = math.frexp(scale)[0] == 0.5
    if dtype is DType.I16 or (power_of_two and zero == 0 and lowest < 0):
        # Symmetric formats do not use the lowest integer.
        lowest = -highest
    return Range((lowest - zero) * scale, (highest - zero) * scale)


def _units(graph: Graph, plan: Plan) -> list[Unit]:
    """Return the units, torn where the plan places their nodes apart."""
    units: list[Unit] = []
    for unit in find_units(graph).items:
        parts: dict[Placement, list[str]] = {}
        for node in unit.nodes:
            parts.setdefault(plan.placement(node), []).append(node)
        units += [Unit(nodes[0], tuple(nodes)) for nodes in parts.values()]
    return units


def _only(plan: Plan, unit: Unit) -> Plan:
    alone = {node: Override(plan.placement(node), "alone") for node in unit.nodes}
    return Plan(plan.graph_digest, _FLOAT, alone, plan.repairs)


def _golden(graph: Graph, samples: Sequence[Sample], tensors: Sequence[str]) -> list[Mapping[str, AnyArray]]:
    executable = load_float(graph)
    try:
        return [executable.run(sample.inputs, tensors) for sample in samples]
    finally:
        executable.close()


def _errors(
    session: Session, samples: Sequence[Sample], watched: Sequence[str], golden: Sequence[Mapping[str, AnyArray]]
) -> dict[str, float]:
    taps = [name for name in watched if name not in session.bundle.outputs]
    runs = [session.run(sample.inputs, taps) for sample in samples]
    return {name: worst_error([real[name] for real in golden], [run.real(name) for run in runs]) for name in watched}


def worst_error(golden: Sequence[AnyArray], measured: Sequence[AnyArray]) -> float:
    """Return RMS(noise) / RMS(signal) of the worst live index of axis 1 or of the last axis, over all samples.

    Pooled over a whole tensor, a quiet channel would drown in a loud one.
    """
    rank = golden[0].ndim
    worst = 0.0
    for axis in {min(1, rank - 1), rank - 1} if rank else {None}:
        others = None if axis is None else tuple(item for item in range(rank) if item != axis)
        signal = sum(np.square(real.astype(np.float64)).sum(axis=others) for real in golden)
        noise = sum(
            np.square(made.astype(np.float64) - real).sum(axis=others)
            for real, made in zip(golden, measured, strict=True)
        )
        live = np.asarray(signal) > 0
        worst = max(worst, float((np.asarray(noise)[live] / np.asarray(signal)[live]).max(initial=0.0)))
    return math.sqrt(worst)
