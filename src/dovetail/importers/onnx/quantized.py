"""Fold Quantize/Dequantize nodes into the types of tensors.

`x -> QuantizeLinear -> q -> DequantizeLinear -> op` becomes one tensor `q` with a quantised type that `op` reads. An
operator reads and writes quantised tensors only as a whole: all its non-constant real inputs and all its used real
outputs; otherwise explicit QuantizeLinear and DequantizeLinear nodes of one input stay at its borders.
A quantised constant that only float operators read becomes a float constant.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.importers.onnx.integers import settle_integers
from dovetail.importers.onnx.qparams import DEQUANTIZE, QUANTIZE, read_parameters
from dovetail.ir import DOVETAIL_DOMAIN, Graph, Node, Quantization, TensorType, dequantize_array
from dovetail.ir.dtypes import DType, round_to_bf16
from dovetail.ir.roles import CLAMPS, CONTROL_FLOW, PASS_THROUGH, SHAPE_ONLY
from dovetail.passes.draft import Draft, merge_origin

_NEVER_QUANTIZED = CONTROL_FLOW | SHAPE_ONLY | {QUANTIZE, DEQUANTIZE, "Cast", "CastLike", "Constant"}


def fold_quantization(draft: Draft, where: str, body: bool = False) -> Graph:
    """Return the Graph with quantisation on types; raise LoadError where a scale is not constant."""
    if any(is_boundary(node) for node in draft.nodes):
        read_parameters(draft, where)
        settle_integers(draft, body)
        _merge_equal(draft)
        _pull_back(draft)
        _push_forward(draft)
        _absorb(draft)
        _requantize(draft)
        _settle_constants(draft)
        _drop_unread(draft)
    return draft.graph()


def is_boundary(node: Node, op: str | None = None) -> bool:
    """Tell whether a node quantises or dequantises."""
    return not node.domain and node.op in ((op,) if op else (QUANTIZE, DEQUANTIZE))


def _rename_inputs(node: Node, names: dict[str, str]) -> Node:
    if not any(name in names for name in node.inputs):
        return node
    return replace(node, inputs=tuple(names.get(name, name) for name in node.inputs))


def _merge_equal(draft: Draft) -> None:
    """Keep one of the boundary nodes that do the same to the same tensor."""
    first: dict[tuple[str, str, TensorType], Node] = {}
    renamed: dict[str, str] = {}
    kept: list[Node] = []
    absorbed: dict[str, list[Node]] = {}
    for node in draft.nodes:
        if is_boundary(node) and node.outputs[0] not in draft.outputs and not _captured(draft, node.outputs[0]):
            source = renamed.get(node.inputs[0], node.inputs[0])
            key = (node.op, source, draft.types[node.outputs[0]])
            if key in first:
                renamed[node.outputs[0]] = first[key].outputs[0]
                absorbed.setdefault(first[key].name, []).append(node)
                continue
            first[key] = node
        kept.append(_rename_inputs(node, renamed))
    draft.nodes = [merge_origin(node, *absorbed.get(node.name, ())) for node in kept]


def _captured(draft: Draft, tensor: str) -> bool:
    return any(tensor in body.captures for node in draft.nodes for body in node.bodies())


def _pull_back(draft: Draft) -> None:
    """Move a QuantizeLinear before the clamps and moves between it and the operator that it quantises.

    Exact: rounding and saturation are monotone and keep the zero point, so they commute with Relu, Clip and moves.
    """
    for node in reversed(list(draft.nodes)):
        if is_boundary(node, QUANTIZE):
            _pull_one(draft, node)


def _pull_one(draft: Draft, quantize: Node) -> None:
    kind = draft.types[quantize.outputs[0]]
    if kind.quant is None or kind.quant.per_channel:
        return
    producers, consumers = draft.producers(), draft.consumers()
    tensor = quantize.inputs[0]
    chain: list[Node] = []
    while True:
        node = producers.get(tensor)
        if node is None or len(consumers.get(tensor, ())) != 1 or tensor in draft.outputs:
            return
        if any(is_boundary(producers[name], DEQUANTIZE) for name in node.inputs if name in producers):
            break
        if node.domain or node.op not in PASS_THROUGH | CLAMPS or sum(bool(name) for name in node.outputs) != 1:
            return
        chain.append(node)
        tensor = node.inputs[0]
    for node in chain:
        _split_input(draft, node, kind)


def _split_input(draft: Draft, node: Node, kind: TensorType) -> None:
    """Put a QuantizeLinear and a DequantizeLinear on the first input of a node."""
    real = node.inputs[0]
    stored, back = draft.fresh(f"{real}/quantized"), draft.fresh(f"{real}/dequantized")
    draft.types[stored] = TensorType(kind.dtype, draft.types[real].shape, kind.quant)
    draft.types[back] = draft.types[real]
    draft.origins[stored] = draft.origins.get(real, real)
    producer = draft.producers()[real]
    quantize = Node(draft.node_name(f"{real}/quantize"), QUANTIZE, (real,), (stored,), {}, "", producer.origin)
    dequantize = Node(draft.node_name(f"{real}/dequantize"), DEQUANTIZE, (stored,), (back,), {}, "", node.origin)
    at = draft.nodes.index(node)
    draft.nodes[at : at + 1] = [quantize, dequantize, replace(node, inputs=(back, *node.inputs[1:]))]


def _push_forward(draft: Draft) -> None:
    """Move a DequantizeLinear behind a move, where an operator behind it can then read the quantised tensor."""
    changed = True
    while changed:
        changed = False
        consumers, producers = draft.consumers(), draft.producers()
        for node in draft.nodes:
            if not _can_move_integers(draft, node, producers, consumers):
                continue
            stored = producers[node.inputs[0]].inputs[0]
            real = node.outputs[0]
            name = draft.fresh(f"{real}/quantized")
            draft.types[name] = replace(draft.types[stored], shape=draft.types[real].shape)
            draft.origins[name] = draft.origins.get(real, real)
            back = Node(draft.node_name(f"{real}/dequantize"), DEQUANTIZE, (name,), (real,), {}, "", node.origin)
            at = draft.nodes.index(node)
            moved = replace(node, inputs=(stored, *node.inputs[1:]), outputs=(name,))
            draft.nodes[at : at + 1] = [moved, back]
            changed = True
            break


def _can_move_integers(draft: Draft, node: Node, producers: dict[str, Node], consumers: dict[str, list[Node]]) -> bool:
    if node.domain or node.op not in PASS_THROUGH or len(node.outputs) != 1 or node.outputs[0] in draft.outputs:
        return False
    before = producers.get(node.inputs[0])
    if before is None or not is_boundary(before, DEQUANTIZE):
        return False
    quant = draft.types[before.inputs[0]].quant
    if quant is None or quant.per_channel or before.inputs[0] in draft.constants:
        return False
    readers = consumers.get(node.outputs[0], [])
    return bool(readers) and all(
        not is_boundary(reader) and (_outputs_quantized(draft, reader, consumers) or _moves(reader))
        for reader in readers
    )


def _moves(node: Node) -> bool:
    return not node.domain and node.op in PASS_THROUGH and len(node.outputs) == 1


def _outputs_quantized(draft: Draft, node: Node, consumers: dict[str, list[Node]]) -> bool:
    """Tell whether each used real output of a node goes to exactly one reader, a QuantizeLinear."""
    if node.domain or node.op in _NEVER_QUANTIZED:
        return False
    quantized = False
    for name in node.outputs:
        readers = consumers.get(name, []) if name else []
        if not name or not draft.types[name].dtype.is_float:
            continue
        if name in draft.outputs or (readers and not (len(readers) == 1 and is_boundary(readers[0], QUANTIZE))):
            return False
        quantized = quantized or bool(readers)
    return quantized


def _inputs_quantized(draft: Draft, node: Node, producers: dict[str, Node]) -> bool:
    """Tell whether every computed real input of a node comes from a DequantizeLinear, and at least one does."""
    quantized = False
    for name in node.inputs:
        if not name or name in draft.constants or draft.value(name) is not None:
            continue
        if not draft.types[name].dtype.is_float:
            continue
        before = producers.get(name)
        if before is None or not is_boundary(before, DEQUANTIZE):
            return False
        quantized = True
    return quantized


def _absorb(draft: Draft) -> None:
    """Let every operator that is quantised on all sides read and write the quantised tensors themselves."""
    producers, consumers = draft.producers(), draft.consumers()
    gone: set[str] = set()
    result: list[Node] = []
    for node in draft.nodes:
        whole = _outputs_quantized(draft, node, consumers) and _inputs_quantized(draft, node, producers)
        if not whole:
            result.append(node)
            continue
        before = [producers[name] for name in node.inputs if name in producers]
        around = [item for item in before if is_boundary(item, DEQUANTIZE)]
        names = {item.outputs[0]: item.inputs[0] for item in around}
        outputs: list[str] = []
        for name in node.outputs:
            reader = next(iter(consumers.get(name, ())), None) if name else None
            if reader is not None and is_boundary(reader, QUANTIZE) and draft.types[name].dtype.is_float:
                around.append(reader)
                gone.add(reader.name)
                outputs.append(reader.outputs[0])
            else:
                # An unread real output has no scale; it is not made any more.
                outputs.append(name if name and not draft.types[name].dtype.is_float else "")
        fused = replace(_rename_inputs(node, names), outputs=tuple(outputs))
        result.append(merge_origin(fused, *around))
    draft.nodes = [node for node in result if node.name not in gone]


def _requantize(draft: Draft) -> None:
    """Turn DequantizeLinear followed by QuantizeLinear into one Requantize, or into nothing where types agree."""
    producers, readers = draft.producers(), draft.consumers()
    renamed: dict[str, str] = {}
    absorbed: dict[str, list[Node]] = {}
    result: list[Node] = []
    for node in draft.nodes:
        before = producers.get(node.inputs[0]) if is_boundary(node, QUANTIZE) else None
        if before is None or not is_boundary(before, DEQUANTIZE):
            result.append(node)
            continue
        source, target = before.inputs[0], node.outputs[0]
        if source in draft.constants:
            result.append(node)
        elif draft.types[source] == draft.types[target] and target not in draft.outputs:
            renamed[target] = source
            for reader in readers.get(target, ()):
                absorbed.setdefault(reader.name, []).extend((node, before))
        else:
            joined = replace(node, op="Requantize", domain=DOVETAIL_DOMAIN, inputs=(source,))
            result.append(merge_origin(joined, before))
    names = _closed(renamed)
    draft.nodes = [merge_origin(_rename_inputs(node, names), *absorbed.get(node.name, ())) for node in result]


def _closed(renamed: dict[str, str]) -> dict[str, str]:
    closed: dict[str, str] = {}
    for name, target in renamed.items():
        while target in renamed:
            target = renamed[target]
        closed[name] = target
    return closed


def _settle_constants(draft: Draft) -> None:
    """Turn the constants that only explicit DequantizeLinear nodes read into float constants."""
    kept: list[Node] = []
    readers = draft.consumers()
    absorbed: dict[str, Node] = {}
    for node in draft.nodes:
        source = node.inputs[0] if node.inputs else ""
        quant = draft.types[source].quant if source in draft.constants else None
        if is_boundary(node, DEQUANTIZE) and quant is not None:
            _make_float(draft, node, quant)
            for reader in readers.get(node.outputs[0], ()):
                absorbed[reader.name] = node
        else:
            kept.append(node)
    draft.nodes = [merge_origin(node, absorbed[node.name]) if node.name in absorbed else node for node in kept]


def _make_float(draft: Draft, node: Node, quant: Quantization) -> None:
    name = node.outputs[0]
    real = dequantize_array(draft.constants[node.inputs[0]], quant)
    dtype = draft.types[name].dtype
    draft.constants[name] = round_to_bf16(real) if dtype is DType.BF16 else real.astype(dtype.carrier)
    draft.types[name] = TensorType(dtype, tuple(real.shape))


def _drop_unread(draft: Draft) -> None:
    """Remove boundary nodes that nothing reads any more."""
    while True:
        readers = draft.consumers()
        kept = [
            node
            for node in draft.nodes
            if not is_boundary(node) or node.outputs[0] in draft.outputs or node.outputs[0] in readers
        ]
        if len(kept) == len(draft.nodes):
            return
        draft.nodes = kept
