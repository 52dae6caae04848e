"""Decide which integer tensors are quantised reals, and spell the others' boundaries in ordinary operators."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.importers.onnx.qparams import DEQUANTIZE, QUANTIZE, parameters_of
from dovetail.ir import DType, Node, Quantization, TensorType, as_constant, read_tensors
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.roles import PASS_THROUGH
from dovetail.passes.draft import Draft

_STORED = (DType.I8, DType.U8, DType.I16, DType.U16, DType.I32)


def settle_integers(draft: Draft, body: bool) -> None:
    """Put parameters on the integer tensors that stand for reals.

    An integer tensor that ordinary arithmetic makes or reads is a plain integer: its DequantizeLinear becomes
    Cast, Sub and Mul, and a QuantizeLinear that arithmetic reads is also spelt Div, Round, Add, Clip and Cast.
    """
    _give_constants(draft)
    quants = _spread(draft, _seeds(draft), body)
    _spell_plain(draft, quants)
    for name, quant in quants.items():
        draft.types[name] = replace(draft.types[name], quant=quant)
    _copy_for_arithmetic(draft, quants, body)


def _give_constants(draft: Draft) -> None:
    """Give each DequantizeLinear of a constant a constant of its own type."""
    typed: dict[tuple[str, Quantization], str] = {}
    nodes: list[Node] = []
    others = {name for node in draft.nodes if not _is(node, DEQUANTIZE) for name in read_tensors(node)}
    others.update(draft.outputs)
    taken: set[str] = set()
    for node in draft.nodes:
        value = draft.value(node.inputs[0]) if _is(node, DEQUANTIZE) else None
        if value is None:
            nodes.append(node)
            continue
        source, quant = node.inputs[0], parameters_of(node)
        name = typed.get((source, quant))
        if name is None:
            free = source in draft.constants and source not in taken and source not in others
            name = source if free else draft.fresh(f"{source}/quantized")
            taken.add(source)
            typed[source, quant] = name
            draft.constants[name] = value
            draft.types[name] = TensorType(draft.types[source].dtype, tuple(value.shape), quant)
        nodes.append(replace(node, inputs=(name,), attributes={}))
    draft.nodes = nodes


def _is(node: Node, op: str) -> bool:
    return node.op == op and not node.domain


def _pending(node: Node) -> bool:
    return _is(node, DEQUANTIZE) and "quant" in node.attributes


def _seeds(draft: Draft) -> dict[str, Quantization]:
    quants: dict[str, Quantization] = {}
    for node in draft.nodes:
        quant = draft.types[node.outputs[0]].quant if _is(node, QUANTIZE) else None
        if quant is not None:
            quants[node.outputs[0]] = quant
    for node in draft.nodes:
        if _pending(node):
            quants.setdefault(node.inputs[0], parameters_of(node))
    return quants


def _spread(draft: Draft, quants: dict[str, Quantization], body: bool) -> dict[str, Quantization]:
    """Carry parameters through nodes that only move integers; drop those of tensors that arithmetic touches."""
    moves = [node for node in draft.nodes if _moves_integers(draft, node)]
    changed = True
    while changed:
        changed = False
        for node in (*moves, *reversed(moves)):
            tensors = _moved(node)
            known = {quants[name] for name in tensors if name in quants}
            if len(known) == 1 and not next(iter(known)).per_channel:
                missing = [name for name in tensors if name not in quants and name not in draft.constants]
                changed = changed or bool(missing)
                quants.update(dict.fromkeys(missing, next(iter(known))))
    return _without_arithmetic(draft, quants, body)


def _without_arithmetic(draft: Draft, quants: dict[str, Quantization], body: bool) -> dict[str, Quantization]:
    producers, consumers = draft.producers(), draft.consumers()
    real = {node.outputs[0] for node in draft.nodes if _is(node, QUANTIZE)}
    kept = dict(quants)
    changed = True
    while changed:
        changed = False
        for name in list(kept):
            if name in real:
                continue
            maker = producers.get(name)
            foreign = maker is not None and not _consistent(draft, maker, kept)
            held = maker is None and (name in draft.captures or (body and name in draft.inputs))
            arithmetic = any(
                not _pending(node) and not _consistent(draft, node, kept) for node in consumers.get(name, ())
            )
            differs = any(_pending(node) and parameters_of(node) != kept[name] for node in consumers.get(name, ()))
            if foreign or held or arithmetic or differs or (body and name in draft.outputs):
                del kept[name]
                changed = True
    return kept


def _moves_integers(draft: Draft, node: Node) -> bool:
    if node.domain or not node.inputs or (node.op not in PASS_THROUGH | {"Concat"} and not _picks(node)):
        return False
    return draft.types[node.inputs[0]].dtype in _STORED and node.inputs[0] not in draft.constants


def _picks(node: Node) -> bool:
    """Tell whether a Resize takes the nearest value everywhere."""
    inside = node.text("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize"
    return node.op == "Resize" and node.text("mode", "nearest") == "nearest" and inside


def _moved(node: Node) -> list[str]:
    data = node.inputs if node.op == "Concat" else node.inputs[:1]
    moved = [node.outputs[0]] if node.op == "MaxPool" else list(node.outputs)
    return [name for name in (*data, *moved) if name]


def _consistent(draft: Draft, node: Node, quants: dict[str, Quantization]) -> bool:
    """Tell whether a node only moves integers between tensors of equal parameters."""
    if not _moves_integers(draft, node):
        return False
    found = {quants.get(name) for name in _moved(node)}
    return len(found) == 1 and None not in found


def _spell_plain(draft: Draft, quants: dict[str, Quantization]) -> None:
    """Replace the DequantizeLinear of a plain integer tensor by Cast, Sub and Mul."""
    nodes: list[Node] = []
    for node in draft.nodes:
        if not _pending(node):
            nodes.append(node)
        elif quants.get(node.inputs[0]) == parameters_of(node):
            nodes.append(replace(node, attributes={}))
        else:
            nodes.extend(_dequantize_steps(draft, node, parameters_of(node)))
    draft.nodes = nodes


class _Steps:
    """Write a chain of nodes that stands for one node."""

    def __init__(self, draft: Draft, node: Node, stem: str) -> None:
        self.draft, self.node, self.stem = draft, node, stem
        self.nodes: list[Node] = []

    def constant(self, label: str, values: tuple[float, ...], quant: Quantization, rank: int) -> str:
        """Add a float constant that broadcasts along the channel axis."""
        shape = [1] * rank
        if quant.axis is not None:
            shape[quant.axis] = len(values)
        name = self.draft.fresh(f"{self.stem}/{label}")
        array = as_constant(np.asarray(values).reshape(shape if quant.axis is not None else ()), np.float32)
        self.draft.constants[name] = array
        self.draft.types[name] = TensorType(DType.F32, tuple(array.shape))
        return name

    def add(self, op: str, inputs: tuple[str, ...], dtype: DType, output: str | None = None) -> str:
        """Add a node; `output` names the last one's result."""
        name = output or self.draft.fresh(f"{self.stem}/{op.lower()}")
        attributes = {"to": ONNX_CODES[dtype]} if op == "Cast" else {}
        if output is None:
            self.draft.types[name] = TensorType(dtype, self.draft.types[inputs[0]].shape)
        title = self.draft.node_name(f"{self.node.name}/{op.lower()}", {node.name for node in self.nodes})
        self.nodes.append(Node(title, op, inputs, (name,), attributes, "", self.node.origin))
        return name


def _dequantize_steps(draft: Draft, node: Node, quant: Quantization) -> list[Node]:
    steps = _Steps(draft, node, node.outputs[0])
    rank = draft.types[node.inputs[0]].rank or 0
    dtype = draft.types[node.outputs[0]].dtype
    real = steps.add("Cast", node.inputs[:1], DType.F32)
    if any(quant.zero_point):
        zeros = tuple(float(item) for item in quant.zero_point)
        real = steps.add("Sub", (real, steps.constant("zero", zeros, quant, rank)), DType.F32)
    scale = steps.constant("scale", quant.scale, quant, rank)
    last = node.outputs[0] if dtype is DType.F32 else None
    real = steps.add("Mul", (real, scale), DType.F32, last)
    if last is None:
        steps.add("Cast", (real,), dtype, node.outputs[0])
    return steps.nodes


def _copy_for_arithmetic(draft: Draft, quants: dict[str, Quantization], body: bool) -> None:
    """Give arithmetic on the output of a QuantizeLinear a plain integer copy of it.

    Where a body captures the integers, the copy takes their name and the quantised tensor gets a new one.
    """
    consumers = draft.consumers()
    copies: dict[str, str] = {}
    moved: dict[str, str] = {}
    nodes: list[Node] = []
    for node in draft.nodes:
        name = node.outputs[0] if _is(node, QUANTIZE) else ""
        readers = [item for item in consumers.get(name, ()) if not _is(item, DEQUANTIZE)] if name else []
        plain = any(not _consistent(draft, item, quants) for item in readers) or (body and name in draft.outputs)
        nodes.append(node)
        if name and plain:
            steps = _quantize_steps(draft, node)
            if any(name in body.captures for item in readers for body in item.bodies()):
                moved[name] = draft.fresh(f"{name}/quantized")
                steps[-1] = replace(steps[-1], outputs=(name,))
            else:
                copies[name] = steps[-1].outputs[0]
            nodes.extend(steps)
    for name, new in moved.items():
        draft.types[new] = draft.types[name]
        draft.types[name] = replace(draft.types[name], quant=None)
        quants[new] = quants[name]
    renamed = _Renamed(copies, moved)
    draft.nodes = [_read_copies(draft, node, renamed, quants) for node in nodes]
    if body:
        draft.outputs = tuple(copies.get(name, name) for name in draft.outputs)


@dataclass(frozen=True, slots=True)
class _Renamed:
    """New names of tensors: of their plain copies, and of the quantised ones that gave their name to a copy."""

    copies: dict[str, str]
    moved: dict[str, str]


def _read_copies(draft: Draft, node: Node, names: _Renamed, quants: dict[str, Quantization]) -> Node:
    """Let arithmetic read the plain copies, and boundaries and moves the quantised tensors."""
    reals = _is(node, DEQUANTIZE) or _is(node, QUANTIZE) or _consistent(draft, node, quants)
    chosen = names.moved if reals else names.copies
    if not any(name in chosen for name in (*node.inputs, *node.outputs)):
        return node
    outputs = tuple(names.moved.get(name, name) for name in node.outputs) if _is(node, QUANTIZE) else node.outputs
    return replace(node, inputs=tuple(chosen.get(name, name) for name in node.inputs), outputs=outputs)


def _quantize_steps(draft: Draft, node: Node) -> list[Node]:
    kind = draft.types[node.outputs[0]]
    quant = kind.quant
    assert quant is not None
    rank = kind.rank or 0
    steps = _Steps(draft, node, f"{node.outputs[0]}/integers")
    lowest, highest = kind.dtype.integer_range
    single = Quantization((1.0,), (0,))
    real = node.inputs[0]
    if draft.types[real].dtype is not DType.F32:
        real = steps.add("Cast", (real,), DType.F32)
    real = steps.add("Div", (real, steps.constant("scale", quant.scale, quant, rank)), DType.F32)
    real = steps.add("Round", (real,), DType.F32)
    zeros = tuple(float(item) for item in quant.zero_point)
    real = steps.add("Add", (real, steps.constant("zero", zeros, quant, rank)), DType.F32)
    bounds = (steps.constant("low", (float(lowest),), single, 0), steps.constant("high", (float(highest),), single, 0))
    real = steps.add("Clip", (real, *bounds), DType.F32)
    steps.add("Cast", (real,), kind.dtype)
    return steps.nodes
