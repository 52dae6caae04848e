"""What the reference cannot run, said when compiling and never when running."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.backends.reference.integers import channel_refusal
from dovetail.backends.reference.kernels import KERNELS
from dovetail.backends.reference.kernels.recurrent import ACTIVATIONS
from dovetail.ir import DOVETAIL_DOMAIN, Graph, Node
from dovetail.ir.roles import CONTROL_FLOW

_Check = Callable[[Graph, Node], str | None]


def refusal(graph: Graph, node: Node) -> str | None:
    """Return why a node cannot run, or None; bodies of control flow are looked into."""
    if node.domain:
        known = node.domain == DOVETAIL_DOMAIN and node.op == "Requantize"
        return None if known else f"domain '{node.domain}' is not known"
    if node.op in CONTROL_FLOW:
        return _first_in_bodies(node)
    if node.op not in KERNELS:
        return "there is no kernel for it"
    check = _CHECKS.get(node.op)
    return (check(graph, node) if check else None) or channel_refusal(graph, node)


def _first_in_bodies(node: Node) -> str | None:
    for body in node.bodies():
        if isinstance(body, Graph):
            for inner in body.nodes:
                reason = refusal(body, inner)
                if reason is not None:
                    return f"its body holds {inner.label}: {reason}"
    return None


def _dropout(graph: Graph, node: Node) -> str | None:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return None
    training = graph.constant(node.inputs[2])
    if training is None:
        return "its training_mode is computed at run time"
    return "it is in training mode, which is random" if bool(training.any()) else None


def _attribute(name: str, default: str, allowed: tuple[str, ...]) -> _Check:
    def check(graph: Graph, node: Node) -> str | None:
        value = node.text(name, default)
        return None if value in allowed else f"{name}={value!r} (known: {', '.join(allowed)})"

    return check


def _recurrent(graph: Graph, node: Node) -> str | None:
    names = node.attributes.get("activations") or ()
    unknown = [str(name) for name in names if str(name).lower() not in ACTIVATIONS] if isinstance(names, tuple) else []
    return f"activation {unknown[0]!r} is not known" if unknown else None


_SCATTER = _attribute("reduction", "none", ("none", "add", "mul", "max", "min"))

_CHECKS: dict[str, _Check] = {
    "Dropout": _dropout,
    "GRU": _recurrent,
    "GridSample": _attribute("mode", "linear", ("linear", "nearest", "cubic")),
    "LSTM": _recurrent,
    "Pad": _attribute("mode", "constant", ("constant", "reflect", "edge", "wrap")),
    "RNN": _recurrent,
    "Resize": _attribute("mode", "nearest", ("nearest", "linear", "cubic")),
    "ScatterElements": _SCATTER,
    "ScatterND": _SCATTER,
}
