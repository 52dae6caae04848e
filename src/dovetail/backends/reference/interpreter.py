"""Run a Graph node by node.

Float nodes are computed in float64 and each result is rounded to its declared type (float32, float16, bfloat16), so
float32 results are at least as exact as float32 arithmetic. Integer and bool tensors keep their own type.
Nodes with quantised outputs follow `integers`, or take the reals of their inputs and quantise the result.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail.backend.arithmetic import EXACT, Accumulator, Arithmetic, Scheme
from dovetail.backends.reference.control import run_control_flow
from dovetail.backends.reference.integers import QuantizedNode, integer_rule
from dovetail.backends.reference.kernels import KERNELS, Call
from dovetail.backends.reference.kernels.pairs import integer_product_losses
from dovetail.backends.reference.ort_rules import ort_rule, real_as_ort, store_as_ort
from dovetail.backends.reference.storing import real_of, store
from dovetail.backends.reference.tflite_float import float_rule
from dovetail.backends.reference.tflite_rules import quantize_as_tflite, tflite_rule
from dovetail.errors import DeviceError
from dovetail.ir import DOVETAIL_DOMAIN, AnyArray, Graph, Node, dequantize_array, quantize_array
from dovetail.ir.roles import CONTROL_FLOW

Values = dict[str, AnyArray]


def run_graph(graph: Graph, inputs: Mapping[str, AnyArray], arithmetic: Arithmetic = EXACT) -> Values:
    """Return the stored value of every tensor of a graph; raise DeviceError naming the node that fails.

    `inputs` holds the graph's inputs, and its captures when it is a body.
    """
    values: Values = {**graph.constants, **inputs}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            try:
                results = _run_node(graph, node, values, arithmetic)
            except (ValueError, IndexError, TypeError, KeyError, AttributeError, MemoryError, OverflowError) as error:
                raise DeviceError(f"{node.label}: cannot run on these values: {error}.") from error
            for name, result in zip(node.outputs, results, strict=False):
                if name:
                    values[name] = result
    return values


def _run_node(graph: Graph, node: Node, values: Values, arithmetic: Arithmetic) -> tuple[AnyArray, ...]:
    stored = tuple(values[name] if name else None for name in node.inputs)
    if node.op in CONTROL_FLOW and not node.domain:

        def run_body(body: Graph, arguments: Mapping[str, AnyArray]) -> list[AnyArray]:
            captured = {name: values[name] for name in body.captures}
            found = run_graph(body, {**captured, **arguments}, arithmetic)
            return [found[name] for name in body.outputs]

        return run_control_flow(node, stored, run_body)
    boundary = _run_boundary(graph, node, stored, arithmetic)
    if boundary is not None:
        return (boundary,)
    own = _own_rule(graph, node, stored, arithmetic)
    if own is not None:
        return (own,)
    rule = integer_rule(graph, node)
    if rule is not None and (arithmetic.scheme is not Scheme.ORT or node.op == "Clip"):
        types = tuple(graph.types[name] if name else None for name in node.inputs)
        return (rule(QuantizedNode(node, types, graph.types[node.outputs[0]], arithmetic), stored),)
    results = _run_on_reals(graph, node, stored, arithmetic)
    losses = integer_product_losses(graph, node, values) if arithmetic.accumulator is Accumulator.PAIRS else None
    return results if losses is None else ((results[0] + losses).astype(results[0].dtype),)


def _own_rule(graph: Graph, node: Node, stored: tuple[AnyArray | None, ...], arithmetic: Arithmetic) -> AnyArray | None:
    """Return the result by the rules of another maker's kernels, or None where exact arithmetic holds."""
    if arithmetic.scheme is Scheme.EXACT or not node.outputs[0]:
        return None
    if arithmetic.scheme is Scheme.TFLITE:
        real = float_rule(graph, node)
        if real is not None:
            return real(node, stored)
    pairs = [(graph.types[name], value) for name, value in zip(node.inputs, stored, strict=True) if value is not None]
    types, values = [kind for kind, _ in pairs], [value for _, value in pairs]
    output = graph.types[node.outputs[0]]
    if arithmetic.scheme is Scheme.TFLITE:
        rule = tflite_rule(node, types, output)
    else:
        rule = ort_rule(node, types, output, arithmetic.accumulator)
    return None if rule is None else rule(node, types, output, values)


def _run_boundary(
    graph: Graph, node: Node, stored: tuple[AnyArray | None, ...], arithmetic: Arithmetic
) -> AnyArray | None:
    """Return the result of a QuantizeLinear or DequantizeLinear whose parameters are on the tensor types."""
    if len(stored) != 1 or stored[0] is None or node.domain:
        return None
    source, result = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    if node.op == "QuantizeLinear" and result.quant is not None:
        if arithmetic.scheme is Scheme.TFLITE and stored[0].dtype == np.float32 and not result.quant.per_channel:
            return quantize_as_tflite(stored[0], result)
        kind = np.float64 if stored[0].dtype == np.float64 else np.float32
        real = stored[0].astype(kind)
        missing = np.isnan(real)
        return np.where(missing, 0, quantize_array(np.where(missing, 0, real), result.dtype, result.quant)).astype(
            result.dtype.carrier
        )
    if node.op == "DequantizeLinear" and source.quant is not None:
        return dequantize_array(stored[0], source.quant).astype(result.dtype.carrier)
    return None


def _run_on_reals(
    graph: Graph, node: Node, stored: tuple[AnyArray | None, ...], arithmetic: Arithmetic
) -> tuple[AnyArray, ...]:
    single = arithmetic.scheme is Scheme.ORT
    inputs = tuple(
        None if value is None else (real_as_ort if single else real_of)(value, graph.types[name])
        for name, value in zip(node.inputs, stored, strict=True)
    )
    declared = tuple(graph.types[name] if name else None for name in node.outputs)
    call = Call(node, inputs, tuple(kind.dtype if kind else None for kind in declared), arithmetic.accumulator)
    op = "Identity" if node.domain == DOVETAIL_DOMAIN and node.op == "Requantize" else node.op
    results: list[AnyArray] = []
    for value, kind in zip(KERNELS[op](call), declared, strict=False):
        if single and kind is not None and kind.quant is not None:
            results.append(store_as_ort(value, kind))
        else:
            results.append(value if kind is None else store(value, kind, arithmetic.rounding(node.op, kind.dtype)))
    return tuple(results)
