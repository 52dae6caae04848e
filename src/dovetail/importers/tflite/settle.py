"""What a file leaves open, found while it is converted: integers that are known, sizes that it does not state.

Converters turn what they know into constants: bounds, sizes, paddings. Bounds that the file computes from shapes are
folded as they are met. Where the file leaves sizes open but those of batches (a `shape_signature` of -1 beside a
placeholder of 1), its shapes are not those of the data, and each is inferred from what makes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from dovetail.importers.assemble import infer_types, to_proto
from dovetail.importers.onnx.evaluate import evaluate_nodes
from dovetail.importers.onnx.tensors import Stored
from dovetail.importers.tflite.layout import TensorForm, order_to, permuted
from dovetail.importers.tflite.model import LiteModel, LiteOperator
from dovetail.importers.tflite.scope import Scope
from dovetail.importers.tflite.site import Site
from dovetail.ir import Node
from dovetail.ir.node import Body
from dovetail.passes.draft import Draft

_SMALL_ELEMENTS = 256
"""Of integers that are folded while a file is converted: bounds and sizes."""

_BOUNDED = frozenset(
    (
        *("Abs", "Add", "Cast", "Concat", "Div", "Gather", "Identity", "Max", "Min", "Mod", "Mul"),
        *(
            "Neg",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "Reshape",
            "Slice",
            "Split",
            "Squeeze",
            "Sub",
            "Unsqueeze",
            "Where",
        ),
    )
)
"""Operators whose results are no larger than what they read allows: a file cannot make these grow without end."""


def is_open(model: LiteModel) -> bool:
    """Tell whether a file leaves sizes open that are no batch's."""
    return any(-1 in tensor.signature[1:] for graph in model.graphs for tensor in graph.tensors)


def state_shape(site: Site) -> None:
    """Give output 0 its shape before its operator is converted, where the converter goes by it."""
    rule = _AHEAD.get(site.operator.kind)
    shape = None if rule is None else rule(site)
    if shape is not None:
        _restate(site.scope, site.operator.outputs[0], shape)


def settle(scope: Scope, operator: LiteOperator, start: int) -> None:
    """Fold what an operator's nodes (from `start` on) make of constants, and take over the shapes that they infer."""
    nodes = scope.nodes[start:]
    if not nodes:
        return
    if not set(operator.outputs).intersection(scope.lite.outputs) and _is_known(scope, nodes):
        _fold(scope, start)
    elif scope.settings.is_open and not any(_has_body(node) for node in nodes):
        _infer(scope, operator, nodes)


def _has_body(node: Node) -> bool:
    return any(isinstance(value, Body) for value in node.attributes.values())


def _is_known(scope: Scope, nodes: list[Node]) -> bool:
    """Tell whether nodes make a few integers of constants."""
    known = set[str]()
    for node in nodes:
        kinds = [scope.types[name] for name in node.outputs if name]
        plain = not node.domain and node.op in _BOUNDED and not any(kind.dtype.is_float or kind.quant for kind in kinds)
        if not plain or any(name not in known and name not in scope.constants for name in node.inputs if name):
            return False
        if any(scope.constants[name].size > _SMALL_ELEMENTS for name in node.inputs if name in scope.constants):
            return False
        if node.op in ("Div", "Mod") and not _divides(scope, node.inputs[1]):
            return False
        known.update(node.outputs)
    return True


def _divides(scope: Scope, name: str) -> bool:
    """Tell whether an integer division is safe: ONNX Runtime ends the process where one traps."""
    divisor = scope.constants.get(name)
    return divisor is not None and bool(((divisor != 0) & (divisor != -1)).all())


def _fold(scope: Scope, start: int) -> None:
    nodes = scope.nodes[start:]
    read = {name for node in nodes for name in node.inputs if name in scope.constants}
    stored = {name: Stored(scope.types[name].dtype, scope.constants[name]) for name in read}
    made = [name for node in nodes for name in node.outputs if name]
    values = evaluate_nodes([to_proto(node) for node in nodes], stored, {name: scope.types[name] for name in made})
    if not all(name in values and values[name].array.size <= _SMALL_ELEMENTS for name in made):
        return
    del scope.nodes[start:]
    for name in made:
        array = values[name].array
        scope.settings.spend(array.nbytes, f"constant '{name}'")
        scope.constants[name] = array
        scope.types[name] = replace(scope.types[name], shape=tuple(array.shape))


def _infer(scope: Scope, operator: LiteOperator, nodes: list[Node]) -> None:
    made = {name for node in nodes for name in node.outputs}
    read = {name for node in nodes for name in node.inputs if name and name not in made}
    draft = Draft(
        name="operator",
        nodes=nodes,
        inputs=tuple(name for name in read if name not in scope.constants),
        outputs=(),
        types={name: scope.types[name] for name in (*read, *made) if name},
        constants={name: scope.constants[name] for name in read if name in scope.constants},
    )
    inferred = infer_types(draft, scope.where)
    for index in operator.outputs:
        for form, name in scope.forms(index).items():
            shape = inferred[name].static_shape if name in inferred else None
            if shape is None:
                continue
            scope.types[name] = replace(scope.types[name], shape=shape)
            back = order_to(TensorForm.LAST, len(shape)) if form is TensorForm.FIRST else tuple(range(len(shape)))
            _restate(scope, index, permuted(shape, back))


def _restate(scope: Scope, index: int, shape: tuple[int, ...]) -> None:
    """Let a tensor of the file have another shape than it states."""
    tensors = list(scope.lite.tensors)
    if tensors[index].shape != shape:
        tensors[index] = replace(tensors[index], shape=shape)
        scope.lite = replace(scope.lite, tensors=tuple(tensors))


def _expanded(site: Site) -> tuple[int, ...] | None:
    axes, shape = site.ints(1), site.shape(0)
    if axes is None or len(axes) != 1:
        return None
    axis = site.axis(axes[0], len(shape) + 1)
    return (*shape[:axis], 1, *shape[axis:])


def _squeezed(site: Site) -> tuple[int, ...] | None:
    shape = site.shape(0)
    given = site.operator.options.integers("SqueezeDims") or ()
    gone = {site.axis(axis, len(shape)) for axis in given} or {axis for axis, size in enumerate(shape) if size == 1}
    return tuple(size for axis, size in enumerate(shape) if axis not in gone)


def _reshaped(site: Site) -> tuple[int, ...] | None:
    shape = site.ints(1) if site.has(1) else site.operator.options.integers("NewShape")
    if shape is None or 0 in shape or shape.count(-1) > 1:
        return None
    rest = math.prod(size for size in shape if size >= 0)
    return tuple(math.prod(site.shape(0)) // rest if size < 0 else size for size in shape)


def _transformed(site: Site) -> tuple[int, ...] | None:
    lengths = site.ints(1)
    return None if not lengths else (*site.shape(0)[:-1], lengths[-1] // 2 + 1)


def _multiplied(site: Site) -> tuple[int, ...] | None:
    outputs, width = site.shape(1)
    if site.operator.options.flag("KeepNumDims"):
        return (*site.shape(0)[:-1], outputs)
    return (math.prod(site.shape(0)) // width, outputs)


_AHEAD: Mapping[str, Callable[[Site], tuple[int, ...] | None]] = {
    "EXPAND_DIMS": _expanded,
    "FULLY_CONNECTED": _multiplied,
    "RESHAPE": _reshaped,
    "RFFT2D": _transformed,
    "SQUEEZE": _squeezed,
}
