"""What a TFLite file says, as plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dovetail.importers.tflite.sparse import Sparsity
from dovetail.ir import DType, Quantization


@dataclass(frozen=True, slots=True)
class LiteTensor:
    """A tensor in the file's layout; `data` is empty where it is computed or fed.

    `source_type` is the file's name of the element type; `dtype` is None when Dovetail has no such type.
    """

    name: str
    source_type: str
    dtype: DType | None
    shape: tuple[int, ...]
    quant: Quantization | None = None
    data: bytes | memoryview = b""
    sparsity: Sparsity | None = None
    signature: tuple[int, ...] = ()
    """The shape with -1 for sizes that are open; empty where none is."""

    @property
    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def is_quantized(self) -> bool:
        """Tell whether the tensor holds 8 or 16-bit integers that stand for reals."""
        return self.quant is not None and self.dtype in (DType.I8, DType.U8, DType.I16)

    @property
    def is_float(self) -> bool:
        """Tell whether the elements are floating point."""
        return self.dtype is not None and self.dtype.is_float


@dataclass(frozen=True, slots=True)
class Options:
    """Read an operator's options by their accessor's name, such as `StrideH`; left-out options have defaults."""

    table: Any = None

    def integer(self, name: str, default: int = 0) -> int:
        """Return an integer or an enum's number."""
        return default if self.table is None else int(getattr(self.table, name)())

    def number(self, name: str, default: float = 0.0) -> float:
        """Return a real number."""
        return default if self.table is None else float(getattr(self.table, name)())

    def flag(self, name: str) -> bool:
        """Return a truth value."""
        return bool(self.integer(name))

    def text(self, name: str) -> str:
        """Return a name of one line; empty when it is left out, or is none."""
        read: Callable[[], bytes | None] = getattr(self.table, name, bytes)
        text = (read() or b"").decode(errors="replace")
        return text if text.isprintable() else ""

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return a list of integers, or None when it is left out."""
        if self.table is None or getattr(self.table, f"{name}IsNone")():
            return None
        item: Callable[[int], int] = getattr(self.table, name)
        return tuple(int(item(index)) for index in range(getattr(self.table, f"{name}Length")()))


@dataclass(frozen=True, slots=True)
class LiteOperator:
    """An operator: `kind` is its builtin name such as `CONV_2D`, or a custom operator's own name."""

    kind: str
    custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Options
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LiteGraph:
    """A subgraph; tensor names are unique within it."""

    name: str
    tensors: tuple[LiteTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[LiteOperator, ...]


@dataclass(frozen=True, slots=True)
class LiteModel:
    """A file; the first subgraph is the model, the others are bodies of control flow."""

    where: str
    size_bytes: int
    graphs: tuple[LiteGraph, ...]
