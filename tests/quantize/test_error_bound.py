"""Quantised networks on the exact simulator stay as near to float as arithmetic promises.

The bound is derived tensor by tensor: what the inputs may be off by, times what the operator makes of it, plus a step
of the output. It knows nothing of how the quantiser or the simulator work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail.backend.protocols import CompileOptions, Fidelity, Signature
from dovetail.backend.registry import backend, find_device, find_target
from dovetail.backends.reference import run_graph
from dovetail.ir import AnyArray, DType, Graph, Node, dequantize_array
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Placement, Plan, find_units
from dovetail.plan.units import clamp_host
from dovetail.quantize import Range, Ranges, quantize
from dovetail.testing.networks import networks

_STEP = 1.5
"""Steps of the output that rounding (half), the ends of the range (half) and look-up tables (half) may cost."""

_LOW = (Precision.U8, Precision.I8, Precision.I8PC, Precision.I8DFP, Precision.I16)
_SLOPES = {"Sigmoid": 0.25}
_LINEAR: dict[str, Callable[[list[float]], float]] = {"Add": sum, "Sub": sum, "Concat": max}


def _bounds(graph: Graph, source: Graph, real: Mapping[str, AnyArray]) -> dict[str, float]:
    """Return by how much every tensor of the quantised graph may differ from its original."""
    bounds: dict[str, float] = {}
    for name in (*graph.inputs, *graph.constants):
        bounds[name] = 0.0
        quant = graph.types[name].quant
        if quant is not None:
            stored = dequantize_array(graph.constants[name], quant)
            bounds[name] = float(np.abs(stored - source.constants[graph.origin_of(name)]).max(initial=0))
    for node in graph.nodes:
        spread = _spread(graph, source, node, bounds, real)
        for tensor in node.outputs:
            quant = graph.types[tensor].quant
            step = 0.0 if quant is None else quant.scale[0]
            size = float(np.abs(real[graph.origin_of(tensor)]).max(initial=0))
            # Multipliers have at least 16 bits; float32 outputs about 24.
            bounds[tensor] = spread + _STEP * step + (size + spread) * 2.0**-14
    return bounds


def _spread(
    graph: Graph, source: Graph, node: Node, bounds: Mapping[str, float], real: Mapping[str, AnyArray]
) -> float:
    if node.op == "Conv":
        return _conv_spread(graph, source, node, bounds, real)
    data = [bounds[name] for name in node.inputs if graph.types[name].holds_reals]
    if node.op == "AveragePool":
        return data[0] + _weight_spread(graph, node, real)
    if node.op in _LINEAR:
        return float(_LINEAR[node.op](data))
    return data[0] * _SLOPES.get(node.op, 1.0)


def _weight_spread(graph: Graph, node: Node, real: Mapping[str, AnyArray]) -> float:
    """Return what an average in 16 bits or in fixed point is off by: parts make it with weights of 7 bits."""
    kind = graph.types[node.outputs[0]]
    if kind.quant is None or not (kind.dtype is DType.I16 or np.log2(kind.quant.scale[0]).is_integer()):
        return 0.0
    return float(np.abs(real[graph.origin_of(node.inputs[0])]).max(initial=0)) * 2.0**-7


def _conv_spread(
    graph: Graph, source: Graph, node: Node, bounds: Mapping[str, float], real: Mapping[str, AnyArray]
) -> float:
    data, weight = node.inputs[:2]
    quant = graph.types[weight].quant
    original = source.constants[graph.origin_of(weight)].astype(np.float64)
    stored = graph.constants[weight].astype(np.float64)
    if quant is not None:
        stored = dequantize_array(graph.constants[weight], quant).astype(np.float64)
    size = float(np.abs(real[graph.origin_of(data)]).max(initial=0))
    bias = bounds[node.inputs[2]] if len(node.inputs) > 2 else 0.0
    others = (1, 2, 3)
    gain, lost = np.abs(stored).sum(axis=others), np.abs(stored - original).sum(axis=others)
    return float((gain * bounds[data] + lost * size).max()) + bias


@st.composite
def planned(draw: st.DrawFn) -> tuple[Graph, Plan]:
    """Draw a network with a precision for every unit, mostly the same."""
    graph = draw(networks())
    target = draw(st.sampled_from(["vsi:a311d", "vsi:imx8mp", "vsi:v853"]))
    default = Placement(target, draw(st.sampled_from(_LOW)))
    overrides: dict[str, Override] = {}
    for unit in find_units(graph).items:
        if not draw(st.integers(0, 2)):
            place = Placement(target, draw(st.sampled_from((*_LOW, Precision.FP32))))
            overrides.update(dict.fromkeys(unit.nodes, Override(place, "drawn")))
    plan, known = Plan(graph.digest, default, overrides), find_target(target)
    assume(all(known.verdict(graph, node, plan.placement(node.name).precision).supported for node in graph.nodes))
    return graph, plan


@settings(max_examples=80, deadline=None)
@given(planned(), st.integers(0, 1000))
def test_every_tensor_is_within_its_bound(drawn: tuple[Graph, Plan], seed: int) -> None:
    graph, plan = drawn
    rng = np.random.default_rng(seed)
    feeds = {name: rng.normal(size=graph.types[name].static_shape).astype(np.float32) for name in graph.inputs}
    everything = tuple(tensor for node in graph.nodes for tensor in node.outputs)
    real = {**feeds, **run_graph(graph.evolve(outputs=everything), feeds)}
    limits = {
        name: Range(float(value.min()), float(value.max()))
        for name, value in real.items()
        if graph.types[name].holds_reals
    }
    result = quantize(graph, plan, Ranges(graph.digest, "minmax", 1, limits)).graph
    simulated = _simulate(result, plan.default.target, feeds)
    for name, bound in _bounds(result, graph, real).items():
        if name in simulated and not _clamped(result, name):
            quant = result.types[name].quant
            value = simulated[name] if quant is None else dequantize_array(simulated[name], quant)
            off = float(np.abs(value.astype(np.float64) - real[result.origin_of(name)]).max(initial=0))
            assert off <= bound + 1e-6, (name, off, bound)


def _clamped(graph: Graph, tensor: str) -> bool:
    """Tell whether a tensor is stored at the range of the clamp behind it."""
    users = graph.consumers.get(tensor, ())
    return any(clamp_host(graph, user) and graph.types[user.outputs[0]] == graph.types[tensor] for user in users)


def _simulate(graph: Graph, target: str, feeds: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
    """Return every tensor of an exact run of the whole graph on the simulator."""
    blob = backend("npusim").compile(graph, find_target(target), CompileOptions(Fidelity.EXACT, 1))
    signature = Signature(
        {name: graph.types[name] for name in graph.inputs}, {name: graph.types[name] for name in graph.outputs}
    )
    executable = find_device("npusim", target).load(blob, signature)
    try:
        return executable.run(feeds, [tensor for node in graph.nodes for tensor in node.outputs])
    finally:
        executable.close()
