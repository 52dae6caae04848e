"""The fast simulation: Q/DQ in float32, as an ONNX model that ONNX Runtime optimises as a float one.

A quantised tensor `t` keeps its name as the output of a QuantizeLinear. Weights are dequantised here, so that they
carry no DequantizeLinear. Three facts of the target cost nothing: a cut multiplier scales weight and bias, ties away
from zero make the scale of QuantizeLinear two units smaller in its last place, and a zero point that is added before
rounding (it matters when it is odd) moves by one. Q and DQ are left out where values are on the grid already.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from onnx import AttributeProto, NodeProto

from dovetail.backend.arithmetic import Rounding, Tie, ZeroPointOrder
from dovetail.backends.proto import add_metadata, new_model, node_proto
from dovetail.backends.sessions import TAPS_KEY, THREADS_KEY
from dovetail.backends.verisilicon.lowering.routes import product_is_shaded
from dovetail.backends.verisilicon.parts.part import VsiProfile
from dovetail.errors import CompileError
from dovetail.exporters.onnx_protos import tensor_proto, value_info
from dovetail.ir import DOVETAIL_DOMAIN, AnyArray, DType, Graph, Node, TensorType, dequantize_array
from dovetail.ir.codes import ONNX_CODES
from dovetail.ir.roles import CLAMPS, is_pass_through, weight_layout

_HALVES = (DType.F16, DType.BF16)


class FloatConstants:
    """Dequantised constants, kept between candidates up to a number of bytes, with what they were made of."""

    def __init__(self, limit_bytes: int = 1 << 26) -> None:
        self._limit_bytes = limit_bytes
        self._kept: OrderedDict[tuple[object, ...], tuple[AnyArray, AnyArray]] = OrderedDict()
        self._size_bytes = 0

    def get(self, stored: AnyArray, kind: TensorType, ratio: AnyArray | None) -> AnyArray:
        """Return the real values of a constant in float32, times `ratio` where one is given."""
        # The array itself is kept, so its identity stays its own.
        key = (id(stored), kind, None if ratio is None else ratio.tobytes())
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[1]
        real = stored.astype(np.float32, copy=False) if kind.quant is None else dequantize_array(stored, kind.quant)
        if ratio is not None:
            real = (real.astype(np.float64) * ratio).astype(np.float32)
        self._kept[key] = (stored, real)
        self._size_bytes += _bytes(stored, real)
        while self._size_bytes > self._limit_bytes and len(self._kept) > 1:
            self._size_bytes -= _bytes(*self._kept.popitem(last=False)[1])
        return real


def _bytes(stored: AnyArray, real: AnyArray) -> int:
    return real.nbytes + (0 if stored is real else stored.nbytes)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A tensor's value before it is stored."""

    source: str
    rounding: Rounding


class FastWriter:
    """Write one graph as a float model with Q/DQ."""

    def __init__(self, graph: Graph, target: VsiProfile, constants: FloatConstants) -> None:
        self._graph = graph
        self._arithmetic = target.arithmetic
        self._generation = target.generation
        self._constants = constants
        self._model = new_model()
        self._pending: dict[str, _Pending] = {}
        self._reals: dict[str, str] = {}
        self._stored: set[str] = set()
        self._shared: dict[object, str] = {}
        self._names = set(graph.types)

    def write(self, threads: int) -> bytes:
        """Return the model as bytes."""
        graph = self._graph
        holder = self._model.graph
        holder.name = graph.name or "graph"
        for name in graph.inputs:
            holder.input.append(value_info(name, graph.types[name]))
            self._stored.add(name)
        for node in graph.nodes:
            self._node(node)
        for name in graph.outputs:
            if name in graph.constants:
                constant = self._fresh(f"{name}/constant")
                holder.initializer.append(tensor_proto(constant, graph.constants[name], graph.types[name].dtype))
                self._add("Identity", [constant], name)
            else:
                self._store(name)
            holder.output.append(value_info(name, graph.types[name]))
        add_metadata(self._model, {THREADS_KEY: str(threads), TAPS_KEY: json.dumps(self._taps())})
        data: bytes = self._model.SerializeToString()
        return data

    def _taps(self) -> dict[str, list[object]]:
        """Return where tensors can be read that the file does not store."""
        found: dict[str, list[object]] = {}
        for name, kind in self._graph.types.items():
            if (
                name in self._stored
                or name in self._graph.constants
                or (kind.quant is None and kind.dtype not in _HALVES)
            ):
                continue
            source = self._pending[name].source if name in self._pending else self._reals.get(name)
            if source is not None and kind.quant is not None:
                found[name] = [source, kind.dtype.value, repr(kind.quant.scale[0]), kind.quant.zero_point[0]]
            elif source is not None:
                found[name] = [source, kind.dtype.value]
        return found

    def _fresh(self, stem: str) -> str:
        name = stem
        while name in self._names:
            name += "'"
        self._names.add(name)
        return name

    def _add(self, op: str, inputs: list[str], output: str) -> str:
        self._model.graph.node.append(NodeProto(op_type=op, name=f"{output}/{op}", input=inputs, output=[output]))
        return output

    def _number(self, value: AnyArray) -> str:
        key = (value.dtype.str, value.tobytes(), value.shape)
        if key not in self._shared:
            self._shared[key] = self._fresh(f"number/{len(self._shared)}")
            self._model.graph.initializer.append(tensor_proto(self._shared[key], value))
        return self._shared[key]

    def _cast(self, source: str, output: str, dtype: DType) -> str:
        self._add("Cast", [source], output)
        self._model.graph.node[-1].attribute.append(
            AttributeProto(name="to", type=AttributeProto.INT, i=ONNX_CODES[dtype])
        )
        return output

    def _store(self, name: str) -> str:
        """Return a tensor as it is stored, storing it when nothing has yet."""
        if name in self._stored:
            return name
        self._stored.add(name)
        kind = self._graph.types[name]
        pending = self._pending.get(name)
        if pending is None and name in self._reals:
            pending = _Pending(self._reals[name], Rounding())
        if pending is None:
            return name
        if kind.quant is None:
            return self._cast(pending.source, name, kind.dtype)
        return self._quantize(name, kind, pending)

    def _quantize(self, name: str, kind: TensorType, pending: _Pending) -> str:
        assert kind.quant is not None
        scale, zero, source = np.float32(kind.quant.scale[0]), kind.quant.zero_point[0], pending.source
        if pending.rounding.tie is Tie.AWAY:
            scale = np.nextafter(np.nextafter(scale, np.float32(0)), np.float32(0))
        elif pending.rounding.zero_point is ZeroPointOrder.BEFORE and zero % 2:
            step = 1 if zero > kind.dtype.integer_range[0] else -1
            source = self._add(
                "Add", [source, self._number(np.asarray(step * scale, np.float32))], self._fresh(f"{name}/moved")
            )
            zero -= step
        numbers = [np.asarray(scale, np.float32), np.asarray(zero, kind.dtype.carrier)]
        return self._add("QuantizeLinear", [source, *(self._number(number) for number in numbers)], name)

    def _real(self, name: str) -> str:
        """Return a tensor as the float32 values that operators read."""
        found = self._reals.get(name)
        if found is not None:
            return found
        graph, kind = self._graph, self._graph.types[name]
        if name in graph.constants:
            found = self._constant(name)
        elif kind.quant is not None:
            numbers = (
                np.asarray(kind.quant.scale[0], np.float32),
                np.asarray(kind.quant.zero_point[0], kind.dtype.carrier),
            )
            stored = self._store(name)
            found = self._add(
                "DequantizeLinear", [stored, *(self._number(number) for number in numbers)], self._fresh(f"{name}/dq")
            )
        elif kind.dtype in _HALVES:
            found = self._cast(self._store(name), self._fresh(f"{name}/f32"), DType.F32)
        else:
            found = name
        self._reals[name] = found
        return found

    def _constant(self, name: str, ratio: AnyArray | None = None) -> str:
        graph, kind = self._graph, self._graph.types[name]
        plain = kind.quant is None and kind.dtype not in _HALVES
        value = graph.constants[name] if plain else self._constants.get(graph.constants[name], kind, ratio)
        stem = self._fresh(f"{name}/real")
        self._model.graph.initializer.append(tensor_proto(stem, value))
        return stem

    def _node(self, node: Node) -> None:
        types, output = self._graph.types, node.outputs[0]
        converts = node.op in ("QuantizeLinear", "Requantize") and len(node.inputs) == 1
        if converts and node.domain in ("", DOVETAIL_DOMAIN):
            rounding = self._arithmetic.rounding(node.op, types[output].dtype)
            self._pending[output] = _Pending(self._real(node.inputs[0]), rounding)
        elif node.op == "DequantizeLinear" and len(node.inputs) == 1:
            self._plain(self._add("Identity", [self._real(node.inputs[0])], self._outside(output)), output)
        elif node.op == "Cast" and types[output].dtype in _HALVES:
            self._pending[output] = _Pending(self._real(node.inputs[0]), Rounding())
        elif node.domain:
            raise CompileError(f"{node.label}: npusim has no operator of domain '{node.domain}'.")
        else:
            self._compute(node)

    def _outside(self, tensor: str) -> str:
        """Return the name of a node's result: the tensor's own where it is stored as it is computed."""
        kind = self._graph.types[tensor]
        return tensor if kind.quant is None and kind.dtype not in _HALVES else self._fresh(f"{tensor}/real")

    def _plain(self, name: str, tensor: str) -> None:
        if name != tensor:
            self._pending[tensor] = _Pending(name, Rounding())
        else:
            self._stored.add(tensor)

    def _compute(self, node: Node) -> None:
        types = self._graph.types
        on_grid = self._stays_on_grid(node)
        inputs = self._inputs(node)
        outputs = [self._outside(name) if name else "" for name in node.outputs]
        self._model.graph.node.append(node_proto(node, inputs, outputs))
        for name, written in zip(node.outputs, outputs, strict=True):
            if not name:
                continue
            if written == name:
                self._stored.add(name)
            elif on_grid:
                self._reals[name] = written
            else:
                rounding = self._arithmetic.rounding(node.op, types[name].dtype)
                if node.op in CLAMPS and node.inputs[0] in self._pending:
                    rounding = self._pending[node.inputs[0]].rounding
                self._pending[name] = _Pending(written, rounding)

    def _inputs(self, node: Node) -> list[str]:
        ratios = self._ratios(node)
        clamps = self._clamps_in_place(node)
        found: list[str] = []
        for index, name in enumerate(node.inputs):
            if not name:
                found.append("")
            elif index in ratios:
                found.append(self._constant(name, ratios[index]))
            elif clamps and index == 0 and name in self._pending:
                # Clamping before rounding gives the same integers as clamping after it, and fuses with the host.
                found.append(self._pending[name].source)
            else:
                found.append(self._real(name))
        return found

    def _same_type(self, one: str, other: str) -> bool:
        first, second = self._graph.types[one], self._graph.types[other]
        return first.quant is not None and first.quant == second.quant and first.dtype is second.dtype

    def _clamps_in_place(self, node: Node) -> bool:
        fixed = all(not name or name in self._graph.constants for name in node.inputs[1:])
        return node.op in CLAMPS and not node.domain and fixed and self._same_type(node.inputs[0], node.outputs[0])

    def _stays_on_grid(self, node: Node) -> bool:
        outputs = [name for name in node.outputs if name]
        if node.op == "Concat":
            return all(self._same_type(name, outputs[0]) for name in node.inputs)
        moves = is_pass_through(self._graph, node)
        return moves and all(self._same_type(node.inputs[0], name) for name in outputs)

    def _ratios(self, node: Node) -> Mapping[int, AnyArray]:
        """Return by how much a cut multiplier scales a node's weight and bias."""
        bits, types = self._arithmetic.multiplier_bits, self._graph.types
        layout = weight_layout(self._graph, node)
        if bits is None or layout is None:
            return {}
        data, weight = types[node.inputs[0]].quant, types[node.inputs[layout.weight]]
        fixed = node.inputs[layout.weight] in self._graph.constants
        if product_is_shaded(self._generation, types[node.inputs[0]], weight, fixed=fixed):
            return {}
        output = types[node.outputs[0]].quant
        if data is None or weight.quant is None or output is None:
            return {}
        scales = np.asarray(weight.quant.scale)
        exact = data.scale[0] * scales / output.scale[0]
        ratio = self._arithmetic.multiplier(data.scale[0], scales, output.scale[0]) / exact
        if float(np.abs(ratio - 1.0).max()) < 2.0**-22:
            return {}
        shape = [1] * (weight.rank or 0)
        if weight.quant.axis is not None:
            shape[weight.quant.axis] = len(ratio)
        found = {layout.weight: ratio.reshape(shape) if weight.quant.per_channel else ratio.reshape(())}
        bias = layout.bias
        if bias is not None and bias < len(node.inputs) and node.inputs[bias] in self._graph.constants:
            found[bias] = ratio if weight.quant.per_channel else ratio.reshape(())
        return found


def build_model(graph: Graph, target: VsiProfile, constants: FloatConstants, threads: int) -> bytes:
    """Return the fast simulation of a graph as a serialised ONNX model; raise CompileError."""
    return FastWriter(graph, target, constants).write(threads)
