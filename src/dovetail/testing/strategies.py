"""Hypothesis strategies for small Graphs.

`any_graphs` are structurally valid but mean nothing: for text, storage and digests. `float_graphs` and
`quantized_graphs` compute something and run anywhere: one input `x` of shape `[1, C, H, W]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.types import Dim

_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Zl", "Zp", "Cc"]), min_size=1, max_size=6)
_QUANTIZED = (DType.I8, DType.U8, DType.I16, DType.U16)


def scales() -> st.SearchStrategy[float]:
    """Return positive scales that float32 holds."""
    return st.floats(min_value=2.0**-20, max_value=2.0**10, width=32, allow_subnormal=False)


@st.composite
def quantizations(draw: st.DrawFn, dtype: DType, shape: tuple[Dim, ...]) -> Quantization:
    """Draw parameters for a tensor of this type and shape, per tensor or per channel."""
    lowest, highest = dtype.integer_range
    axes = [axis for axis, dim in enumerate(shape) if isinstance(dim, int) and 0 < dim <= 8]
    axis = draw(st.sampled_from([None, *axes]))
    count = 1 if axis is None else int(shape[axis] or 1)
    wide = dtype in (DType.I32, DType.I64)
    zero = st.just(0) if wide else st.integers(lowest, highest)
    scale = draw(st.lists(scales(), min_size=count, max_size=count))
    return Quantization(tuple(scale), tuple(draw(st.lists(zero, min_size=count, max_size=count))), axis)


@st.composite
def tensor_types(draw: st.DrawFn) -> TensorType:
    """Draw any type: known, symbolic and unknown sizes, quantised or not."""
    dtype = draw(st.sampled_from(list(DType)))
    dims: st.SearchStrategy[Dim] = st.one_of(st.integers(0, 5), _NAMES, st.none())
    shape = draw(st.one_of(st.none(), st.lists(dims, max_size=4).map(tuple)))
    if dtype in (*_QUANTIZED, DType.I32, DType.I64) and shape is not None and draw(st.booleans()):
        return TensorType(dtype, shape, draw(quantizations(dtype, shape)))
    return TensorType(dtype, shape)


@st.composite
def arrays(draw: st.DrawFn, dtype: DType) -> AnyArray:
    """Draw a small array of an element type, special values included."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    count = int(np.prod(shape, dtype=np.int64))
    payload = draw(st.binary(min_size=count * dtype.carrier.itemsize, max_size=count * dtype.carrier.itemsize))
    raw = np.frombuffer(payload, dtype=np.uint8)
    if dtype is DType.BOOL:
        return (raw & 1).astype(np.bool_).reshape(shape)
    if dtype is DType.BF16:
        bits = raw.view(np.uint32) & np.uint32(0xFFFF0000)
        return np.asarray(np.nan_to_num(bits.view(np.float32))).reshape(shape)
    array: AnyArray = raw.view(dtype.carrier).reshape(shape)
    return np.asarray(np.nan_to_num(array)) if dtype.is_float else array


def attributes(depth: int) -> st.SearchStrategy[dict[str, object]]:
    """Return attributes of every form; `depth` bounds nested bodies."""
    numbers = st.floats(allow_nan=False, width=32)
    values: list[st.SearchStrategy[object]] = [
        st.integers(-(2**40), 2**40),
        numbers,
        st.text(max_size=5),
        st.lists(st.integers(-5, 5), max_size=3).map(tuple),
        st.lists(numbers, min_size=1, max_size=3).map(tuple),
        st.lists(st.text(max_size=3), min_size=1, max_size=2).map(tuple),
        st.sampled_from([DType.F32, DType.I64, DType.U8]).flatmap(arrays),
    ]
    if depth > 0:
        values.append(any_graphs(depth - 1))
    return st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.one_of(values), max_size=3)


@st.composite
def any_graphs(draw: st.DrawFn, depth: int = 1) -> Graph:
    """Draw a valid Graph of meaningless operators, with every kind of type, constant and attribute."""
    names = draw(st.lists(_NAMES, min_size=3, max_size=12, unique=True))
    types: dict[str, TensorType] = {}
    constants: dict[str, AnyArray] = {}
    inputs = [names[0]]
    types[names[0]] = draw(tensor_types())
    nodes: list[Node] = []
    outputs: list[str] = []
    for index, name in enumerate(names[1:]):
        if draw(st.booleans()):
            dtype = draw(st.sampled_from(list(DType)))
            constants[name] = draw(arrays(dtype))
            shape = constants[name].shape
            quant = draw(quantizations(dtype, shape)) if dtype in _QUANTIZED and draw(st.booleans()) else None
            types[name] = TensorType(dtype, shape, quant)
            continue
        reads = draw(st.lists(st.sampled_from([*types, ""]), max_size=3))
        domain, op = draw(st.sampled_from([("", "Conv"), ("", "If"), ("dovetail", "Requantize"), ("my.own", "Op_2")]))
        origin = tuple(draw(st.lists(_NAMES, max_size=2)))
        made = (name, "") if draw(st.booleans()) else (name,)
        bag = _without_captures(draw(attributes(depth)))
        nodes.append(Node(f"{name}.{index}", op, tuple(reads), made, bag, domain, origin))
        types[name] = draw(tensor_types())
        outputs.append(name)
    chosen = draw(st.lists(st.sampled_from([*inputs, *outputs]), min_size=1, max_size=3, unique=True))
    origins = {name: f"was {name}" for name in draw(st.lists(st.sampled_from(names), max_size=2))}
    title = draw(st.text(max_size=5))
    return Graph(title, tuple(nodes), tuple(inputs), tuple(chosen), types, constants, (), origins)


def _without_captures(bag: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in bag.items() if not isinstance(value, Graph) or not value.captures}


@dataclass(slots=True)
class Build:
    """A graph that grows node by node behind its last tensor."""

    rng: np.random.Generator
    last: str = "x"
    nodes: list[Node] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, AnyArray] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the last tensor."""
        shape = self.types[self.last].static_shape
        assert shape is not None
        return shape

    def constant(self, array: AnyArray, kind: TensorType | None = None) -> str:
        """Add a constant and return its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        self.types[name] = kind or TensorType(DType.of(array.dtype), tuple(array.shape))
        return name

    def floats(self, *shape: int, low: float = -1.0) -> str:
        """Add a constant of random float32 values between `low` and 1."""
        return self.constant(self.rng.uniform(low, 1.0, shape).astype(np.float32))

    def integers(self, *values: int) -> str:
        """Add a constant list of int64."""
        return self.constant(np.array(values, dtype=np.int64))

    def add(self, op: str, *others: str, shape: tuple[int, ...] | None = None, **attributes: object) -> None:
        """Append a node that reads the last tensor first."""
        name = f"t{len(self.nodes)}"
        quant = self.types[self.last].quant
        self.types[name] = TensorType(self.types[self.last].dtype, self.shape if shape is None else shape, quant)
        self.nodes.append(Node(f"{op}_{len(self.nodes)}", op, (self.last, *others), (name,), attributes))
        self.last = name

    def graph(self, outputs: tuple[str, ...]) -> Graph:
        """Return the graph."""
        return Graph("drawn", tuple(self.nodes), ("x",), outputs, self.types, self.constants)


def _conv(build: Build) -> None:
    channels, height, width = build.shape[1:]
    made = int(build.rng.integers(1, 5))
    others = [build.floats(made, channels, 1, 1)] + ([build.floats(made)] if build.rng.random() < 0.5 else [])
    build.add("Conv", *others, shape=(1, made, height, width))


def _depthwise(build: Build) -> None:
    channels = build.shape[1]
    build.add("Conv", build.floats(channels, 1, 3, 3), group=channels, pads=(1, 1, 1, 1))


def _transposed(build: Build) -> None:
    channels, height, width = build.shape[1:]
    group = 2 if channels % 2 == 0 else 1
    weight = build.floats(channels, 2, 1, 1)
    build.add("ConvTranspose", weight, shape=(1, 2 * group, height, width), group=group)


def _batchnorm(build: Build) -> None:
    channels = build.shape[1]
    values = [build.floats(channels) for _ in range(3)] + [build.floats(channels, low=0.1)]
    build.add("BatchNormalization", *values, epsilon=1e-3)


def _elementwise(op: str) -> Callable[[Build], None]:
    def step(build: Build) -> None:
        channels = build.shape[1]
        shape = [(channels, 1, 1), (1, channels, 1, 1), (1,), (), (build.shape[3],)][int(build.rng.integers(5))]
        build.add(op, build.floats(*shape, low=0.5))

    return step


def _clip(build: Build) -> None:
    build.add("Clip", build.floats(low=0.0), build.constant(np.array(1.5, dtype=np.float32)))


def _pad(build: Build) -> None:
    channels, height, width = build.shape[1:]
    build.add("Pad", build.integers(0, 0, 1, 0, 0, 0, 0, 2), shape=(1, channels, height + 1, width + 2))


def _transposes(build: Build) -> None:
    batch, channels, height, width = build.shape
    build.add("Transpose", shape=(batch, height, width, channels), perm=(0, 2, 3, 1))
    if build.rng.random() < 0.7:
        build.add("Transpose", shape=(batch, channels, height, width), perm=(0, 3, 1, 2))


def _reshape(build: Build) -> None:
    build.add("Reshape", build.integers(*build.shape))


def _residual(build: Build) -> None:
    source = build.last
    build.add("Relu")
    build.add("Add", source)


def _matmul(build: Build) -> None:
    if len(build.shape) != 4:
        return
    columns = int(np.prod(build.shape))
    build.add("Flatten", shape=(1, columns), axis=1)
    build.add("MatMul", build.floats(columns, 4), shape=(1, 4))
    build.add("Add", build.floats(*((4,) if build.rng.random() < 0.5 else (1, 4))))
    build.add("Reshape", build.integers(1, 4, 1, 1), shape=(1, 4, 1, 1))


def _plain(op: str) -> Callable[[Build], None]:
    def step(build: Build) -> None:
        build.add(op)

    return step


_STEPS: tuple[Callable[[Build], None], ...] = (
    _conv,
    _conv,
    _depthwise,
    _transposed,
    _batchnorm,
    _batchnorm,
    _elementwise("Add"),
    _elementwise("Sub"),
    _elementwise("Mul"),
    _elementwise("Div"),
    _clip,
    _pad,
    _transposes,
    _reshape,
    _residual,
    _matmul,
    _plain("Relu"),
    _plain("Identity"),
    _plain("Dropout"),
    _plain("Sigmoid"),
)


def _start(draw: st.DrawFn) -> Build:
    build = Build(np.random.default_rng(draw(st.integers(0, 2**16))))
    shape = (1, draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    build.types["x"] = TensorType(DType.F32, shape)
    return build


@st.composite
def float_graphs(draw: st.DrawFn) -> Graph:
    """Draw a small float network that passes have something to do with; it may have several outputs."""
    build = _start(draw)
    for step in draw(st.lists(st.sampled_from(_STEPS), min_size=1, max_size=7)):
        step(build)
    made = [node.outputs[0] for node in build.nodes]
    extra = draw(st.lists(st.sampled_from(made), max_size=1)) if made else []
    return build.graph(tuple(dict.fromkeys([build.last, *extra])))


@st.composite
def quantized_graphs(draw: st.DrawFn) -> Graph:
    """Draw a network of quantised convolutions, clamps and moves between explicit boundary nodes."""
    build = _start(draw)
    dtype = draw(st.sampled_from(_QUANTIZED))
    _boundary(build, "QuantizeLinear", TensorType(dtype, build.shape, _activation(draw, dtype)))
    for kind in draw(st.lists(st.sampled_from(["conv", "relu", "move", "add", "requantize"]), min_size=1, max_size=5)):
        if kind == "conv":
            _quantized_conv(draw, build, dtype)
        elif kind == "relu":
            _boundary(build, "Relu", TensorType(dtype, build.shape, _activation(draw, dtype)))
        elif kind == "move":
            batch, channels, height, width = build.shape
            build.add("Transpose", shape=(batch, channels, width, height), perm=(0, 1, 3, 2))
        elif kind == "add":
            _boundary(build, "Add", TensorType(dtype, build.shape, _activation(draw, dtype)), build.last)
        else:
            changed = TensorType(dtype, build.shape, _activation(draw, dtype))
            if changed != build.types[build.last]:
                _boundary(build, "Requantize", changed, domain="dovetail")
    _boundary(build, "DequantizeLinear", TensorType(DType.F32, build.shape))
    return build.graph((build.last,))


def _activation(draw: st.DrawFn, dtype: DType) -> Quantization:
    lowest, highest = dtype.integer_range
    scale = np.float32(draw(st.floats(0.5, 2.0, width=32)) * 2.0 / (highest - lowest))
    return Quantization((float(scale),), (draw(st.integers(lowest, highest)),))


def _boundary(build: Build, op: str, kind: TensorType, *others: str, domain: str = "") -> None:
    build.add(op, *others)
    build.types[build.last] = kind
    node = build.nodes[-1]
    build.nodes[-1] = Node(node.name, node.op, node.inputs, node.outputs, node.attributes, domain)


def _quantized_conv(draw: st.DrawFn, build: Build, dtype: DType) -> None:
    channels, height, width = build.shape[1:]
    made = draw(st.integers(1, 4))
    per_channel = draw(st.booleans())
    count = made if per_channel else 1
    weight_type = draw(st.sampled_from([DType.I8, DType.U8]))
    scale = tuple(float(np.float32(value)) for value in build.rng.uniform(0.002, 0.01, count))
    zero = (0,) * count if weight_type is DType.I8 else (128,) * count
    quant = Quantization(scale, zero, 0 if per_channel else None)
    lowest, highest = weight_type.integer_range
    shape = (made, channels, 1, 1)
    array = build.rng.integers(lowest, highest, shape, endpoint=True).astype(weight_type.carrier)
    others = [build.constant(array, TensorType(weight_type, shape, quant))]
    source = build.types[build.last].quant
    if draw(st.booleans()) and source is not None:
        both = tuple(float(np.float32(value * source.scale[0])) for value in scale)
        bias = build.rng.integers(-500, 500, made).astype(np.int32)
        kind = TensorType(DType.I32, (made,), Quantization(both, (0,) * count, 0 if per_channel else None))
        others.append(build.constant(bias, kind))
    build.add("Conv", *others)
    build.types[build.last] = TensorType(dtype, (1, made, height, width), _activation(draw, dtype))
