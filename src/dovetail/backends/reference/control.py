"""Control flow: If, Loop and Scan run their bodies with stored values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dovetail.ir import AnyArray, Graph, Node

RunBody = Callable[[Graph, Mapping[str, AnyArray]], list[AnyArray]]
_MAX_TRIPS = 2**63 - 1


def run_control_flow(node: Node, inputs: Sequence[AnyArray | None], run_body: RunBody) -> tuple[AnyArray, ...]:
    """Return the outputs of a control-flow node."""
    if node.op == "If":
        condition = inputs[0]
        chosen = "then_branch" if condition is not None and bool(condition.reshape(-1)[0]) else "else_branch"
        return tuple(run_body(_body(node, chosen), {}))
    return _loop(node, inputs, run_body) if node.op == "Loop" else _scan(node, inputs, run_body)


def _body(node: Node, attribute: str) -> Graph:
    body = node.attributes[attribute]
    if not isinstance(body, Graph):
        raise TypeError(f"attribute {attribute} is not a graph")
    return body


def _loop(node: Node, inputs: Sequence[AnyArray | None], run_body: RunBody) -> tuple[AnyArray, ...]:
    """Run the body while the condition holds; its inputs are the trip number, the condition and the carried values."""
    body = _body(node, "body")
    limit, condition = inputs[0], inputs[1] if len(inputs) > 1 else None
    trips = _MAX_TRIPS if limit is None else int(limit.reshape(-1)[0])
    go_on = condition is None or bool(condition.reshape(-1)[0])
    carried = [value for value in inputs[2:] if value is not None]
    collected: list[list[AnyArray]] = [[] for _ in body.outputs[1 + len(carried) :]]
    trip = 0
    while go_on and trip < trips:
        arguments = [np.array(trip, dtype=np.int64), np.array(go_on), *carried]
        shaped = (_reshaped(body, name, value) for name, value in zip(body.inputs, arguments, strict=True))
        results = run_body(body, dict(zip(body.inputs, shaped, strict=True)))
        go_on = bool(results[0].reshape(-1)[0])
        carried, trip = results[1 : 1 + len(carried)], trip + 1
        for kept, value in zip(collected, results[1 + len(carried) :], strict=True):
            kept.append(value)
    names = body.outputs[1 + len(carried) :]
    scans = (np.stack(kept) if kept else _nothing(body, name) for kept, name in zip(collected, names, strict=True))
    return *carried, *scans


def _reshaped(body: Graph, name: str, value: AnyArray) -> AnyArray:
    """Give the trip number and the condition the rank that the body declares: a scalar, or one element."""
    return value.reshape(1) if value.ndim == 0 and body.types[name].rank == 1 else value


def _nothing(body: Graph, name: str) -> AnyArray:
    """Return the stack of no values at all."""
    kind = body.types[name]
    sizes = (dim if isinstance(dim, int) else 0 for dim in kind.shape or ())
    return np.zeros((0, *sizes), kind.dtype.carrier)


def _scan(node: Node, inputs: Sequence[AnyArray | None], run_body: RunBody) -> tuple[AnyArray, ...]:
    """Run the body over slices of the last `num_scan_inputs` inputs."""
    body, count = _body(node, "body"), node.integer("num_scan_inputs", 1)
    values = [value for value in inputs if value is not None]
    states, sources = values[: len(values) - count], values[len(values) - count :]
    axes = node.integers("scan_input_axes") or (0,) * count
    backwards = node.integers("scan_input_directions") or (0,) * count
    slices = [
        np.flip(np.moveaxis(source, axis, 0), 0) if back else np.moveaxis(source, axis, 0)
        for source, axis, back in zip(sources, axes, backwards, strict=True)
    ]
    collected: list[list[AnyArray]] = [[] for _ in body.outputs[len(states) :]]
    for index in range(slices[0].shape[0]):
        arguments = [*states, *(source[index] for source in slices)]
        results = run_body(body, dict(zip(body.inputs, arguments, strict=True)))
        states = results[: len(states)]
        for kept, value in zip(collected, results[len(states) :], strict=True):
            kept.append(value)
    out_axes = node.integers("scan_output_axes") or (0,) * len(collected)
    out_backwards = node.integers("scan_output_directions") or (0,) * len(collected)
    scans: list[AnyArray] = []
    names = body.outputs[len(states) :]
    for kept, name, axis, back in zip(collected, names, out_axes, out_backwards, strict=True):
        stack = np.stack(kept[::-1] if back else kept) if kept else _nothing(body, name)
        scans.append(np.moveaxis(stack, 0, axis))
    return *states, *scans
