"""Fold what scales or shifts channels into the operator before it: BatchNormalization, Add, Sub, Mul, Div by constants.

For an accumulating operator `y = W x + b`, `f y + s` is `(f W) x + (f b + s)`, with f and s per output channel. The
arithmetic is done in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.passes.draft import Draft, merge_origin

_HOSTS = ("Conv", "ConvTranspose", "Gemm")


@dataclass(frozen=True, slots=True)
class _Affine:
    """A factor and a shift per channel, `[C]` or `[1]`, and the tensor that they apply to."""

    source: str
    factor: AnyArray
    shift: AnyArray


Reader = Callable[[Draft, Node], _Affine | None]


@dataclass(frozen=True)
class FoldBatchNorm:
    """Fold BatchNormalization in inference mode into the Conv, ConvTranspose or Gemm before it."""

    name: str = "fold-batchnorm"

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph without the normalisations that have a host."""
        return _fold(graph, _batchnorm)


@dataclass(frozen=True)
class FoldAffine:
    """Fold per-channel Add and Sub of constants, and Mul and Div if `scales`, into the operator before them."""

    scales: bool = True
    name: str = "fold-affine"

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph without the shifts and scales that have a host."""
        return _fold(graph, self._read)

    def _read(self, draft: Draft, node: Node) -> _Affine | None:
        if node.op in ("Mul", "Div") and not self.scales:
            return None
        return _elementwise(draft, node)


def _fold(graph: Graph, read: Reader) -> Graph:
    draft = Draft.of(graph)
    producers, consumers = draft.producers(), draft.consumers()
    gone: set[str] = set()
    for node in graph.nodes:
        affine = None if node.domain else read(draft, node)
        if affine is None:
            continue
        host = producers.get(affine.source)
        if host is None or len(consumers[affine.source]) != 1 or affine.source in graph.outputs:
            continue
        fused = _fuse(draft, host, node, affine, consumers)
        if fused is not None:
            draft.nodes[draft.nodes.index(host)] = fused
            gone.add(node.name)
            producers[node.outputs[0]] = fused
    if not gone:
        return graph
    draft.nodes = [node for node in draft.nodes if node.name not in gone]
    return draft.graph()


def _batchnorm(draft: Draft, node: Node) -> _Affine | None:
    if node.op != "BatchNormalization" or node.integer("training_mode", 0) or any(node.outputs[1:]):
        return None
    values = [draft.constants.get(name) for name in node.inputs[1:5]]
    if len(values) != 4 or any(value is None or draft.types[name].quant for name, value in _pairs(node, values)):
        return None
    scale, bias, mean, variance = (value.astype(np.float64) for value in values if value is not None)
    factor: AnyArray = scale / np.sqrt(variance + node.number("epsilon", 1e-5))
    return _Affine(node.inputs[0], factor, bias - mean * factor)


def _pairs(node: Node, values: list[AnyArray | None]) -> list[tuple[str, AnyArray | None]]:
    return list(zip(node.inputs[1:5], values, strict=True))


def _elementwise(draft: Draft, node: Node) -> _Affine | None:
    if node.op not in ("Add", "Sub", "Mul", "Div") or len(node.inputs) != 2:
        return None
    constant = next((index for index in (1, 0) if node.inputs[index] in draft.constants), None)
    if constant is None or node.inputs[1 - constant] in draft.constants:
        return None
    name, source = node.inputs[constant], node.inputs[1 - constant]
    before, after = draft.types[source], draft.types[node.outputs[0]]
    if not before.dtype.is_float or before.shape is None or before.shape != after.shape:
        return None
    values = _per_channel(draft.constants[name], before)
    if values is None or draft.types[name].quant is not None:
        return None
    one, zero = np.ones(1), np.zeros(1)
    if node.op == "Add":
        return _Affine(source, one, values)
    if node.op == "Sub":
        return _Affine(source, one, -values) if constant == 1 else _Affine(source, -one, values)
    if node.op == "Mul":
        return _Affine(source, values, zero)
    return _Affine(source, 1 / values, zero) if constant == 1 and np.all(values != 0) else None


def _per_channel(array: AnyArray, kind: TensorType) -> AnyArray | None:
    """Return a constant as `[C]` or `[1]` when it only varies along axis 1 of a tensor, else None."""
    rank = kind.rank or 0
    if rank < 2 or array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(size != 1 for axis, size in enumerate(shape) if axis != 1):
        return None
    return array.astype(np.float64).reshape(-1)


def _fuse(draft: Draft, host: Node, node: Node, affine: _Affine, consumers: dict[str, list[Node]]) -> Node | None:
    """Return the host with the affine map inside and the later node's output, or None when it cannot take it."""
    if host.op not in _HOSTS or host.domain or len(host.inputs) < 2:
        return None
    weight = draft.constants.get(host.inputs[1])
    types = [draft.types[name] for name in (*host.inputs, *host.outputs) if name]
    if weight is None or any(kind.quant is not None or not kind.dtype.is_float for kind in types):
        return None
    channels, axis = _channels(host, weight)
    bias = _bias(draft, host, channels)
    if any(value.size not in (1, channels) for value in (affine.factor, affine.shift)):
        return None
    factor, shift = (np.broadcast_to(value, (channels,)) for value in (affine.factor, affine.shift))
    if bias is None or not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        return None
    inputs = [host.inputs[0], host.inputs[1], host.inputs[2] if len(host.inputs) > 2 else ""]
    if not np.all(factor == 1):
        scaled = weight.astype(np.float64) * _along(factor, axis, weight, host)
        inputs[1] = _store(draft, inputs[1], scaled, consumers, f"{host.name}/weight")
    inputs[2] = _store(draft, inputs[2], bias * factor + shift, consumers, f"{host.name}/bias", draft.types[inputs[1]])
    attributes = dict(host.attributes)
    if host.op == "Gemm":
        attributes["beta"] = 1.0
    fused = replace(host, inputs=tuple(inputs), outputs=node.outputs[:1], attributes=attributes)
    return merge_origin(fused, node)


def _channels(host: Node, weight: AnyArray) -> tuple[int, int]:
    """Return the number of output channels and the weight's axis that counts them (within a group)."""
    if host.op == "Conv":
        return weight.shape[0], 0
    if host.op == "ConvTranspose":
        return weight.shape[1] * host.integer("group", 1), 1
    axis = 0 if host.integer("transB", 0) else 1
    return weight.shape[axis], axis


def _along(factor: AnyArray, axis: int, weight: AnyArray, host: Node) -> AnyArray:
    """Return the factors shaped to multiply the weight."""
    if host.op == "ConvTranspose":
        # The weight is [C_in, C_out / groups, ...]: rows of one group share that group's output channels.
        groups = host.integer("group", 1)
        rows = np.repeat(factor.reshape(groups, -1), weight.shape[0] // groups, axis=0)
        return rows.reshape(*rows.shape, *(1,) * (weight.ndim - 2))
    shape = [1] * weight.ndim
    shape[axis] = -1
    return factor.reshape(shape)


def _bias(draft: Draft, host: Node, channels: int) -> AnyArray | None:
    """Return the bias as float64 `[C]`, or None when it is computed or not per channel."""
    name = host.inputs[2] if len(host.inputs) > 2 else ""
    if not name:
        return np.zeros(channels)
    value = draft.constants.get(name)
    if value is None or value.size not in (1, channels) or (value.size > 1 and value.shape[-1] != channels):
        return None
    scaled = value.astype(np.float64).reshape(-1) * (host.number("beta", 1.0) if host.op == "Gemm" else 1.0)
    return np.broadcast_to(scaled, (channels,))


def _store(
    draft: Draft,
    name: str,
    value: AnyArray,
    consumers: dict[str, list[Node]],
    stem: str,
    like: TensorType | None = None,
) -> str:
    """Store a new value under the constant's own name when nobody else reads it, else under a new one."""
    kind = draft.types[name] if name else like
    assert kind is not None
    alone = name and len(consumers.get(name, ())) <= 1 and name not in draft.outputs and name in draft.constants
    target = name if alone else draft.fresh(stem)
    draft.constants[target] = value.astype(kind.dtype.carrier)
    draft.types[target] = TensorType(kind.dtype, tuple(value.shape))
    return target


@dataclass(frozen=True)
class MatMulToGemm:
    """Rewrite a MatMul of a matrix by a constant matrix, followed by Add of a constant vector, as one Gemm."""

    name: str = "matmul-to-gemm"

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph with Gemm where the input's rank is 2; the rest is left."""
        draft = Draft.of(graph)
        gone: set[str] = set()
        for node in graph.nodes:
            affine = _elementwise(draft, node) if node.op == "Add" and not node.domain else None
            product = graph.producers.get(affine.source) if affine else None
            if affine is None or product is None or not _is_plain_product(graph, product):
                continue
            weight = product.inputs[1]
            columns = graph.constants[weight].shape[1]
            constant = next(name for name in node.inputs if name != affine.source)
            kind = draft.types[weight]
            bias = constant
            if graph.constants[constant].shape != (columns,):
                bias = draft.fresh(f"{constant}/bias")
                draft.constants[bias] = np.broadcast_to(affine.shift, (columns,)).astype(kind.dtype.carrier)
                draft.types[bias] = TensorType(kind.dtype, (columns,))
            gemm = Node(product.name, "Gemm", (*product.inputs, bias), node.outputs, {}, "", product.origin)
            draft.nodes[draft.nodes.index(product)] = merge_origin(gemm, node)
            gone.add(node.name)
        draft.nodes = [node for node in draft.nodes if node.name not in gone]
        return draft.graph() if gone else graph


def _is_plain_product(graph: Graph, node: Node) -> bool:
    if node.op != "MatMul" or node.domain or node.inputs[1] not in graph.constants:
        return False
    output = node.outputs[0]
    kinds = [graph.types[name] for name in (*node.inputs, output)]
    if len(graph.consumers.get(output, ())) != 1 or output in graph.outputs:
        return False
    return all(kind.rank == 2 and kind.quant is None and kind.dtype in (DType.F32, DType.F16) for kind in kinds)
