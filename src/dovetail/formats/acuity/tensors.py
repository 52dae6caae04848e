"""Golden tensors as Acuity dumps them: names, and values as text, .npy or raw.

inference: `iter_<i>_<lid>_<port>_<dims>[.qnt].tensor`; dump: `<lid>_<port>_nchw_<dims>[.qnt].{tensor,bin,npy}`.
Blanks, '/' and ':' of a layer's name become '_'.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dovetail.errors import FormatError
from dovetail.ir.dtypes import AnyArray

MAX_TENSOR_BYTES = 1 << 30
_NAME = re.compile(
    r"(?:iter_(?P<iteration>\d{1,9})_)?(?P<layer>.+?)_(?P<port>out\d{1,4})"
    r"(?:_(?P<layout>nchw|nhwc))?(?P<dims>(?:_\d{1,9}){0,8})(?P<quantised>\.qnt)?\.(?P<kind>tensor|bin|npy|txt|dat)"
)
_SIGNS = re.compile(r"[/: ]")


@dataclass(frozen=True, slots=True)
class TensorFile:
    """What the name of a tensor file says; `iteration` is -1 where it has none."""

    layer: str
    port: str
    shape: tuple[int, ...]
    iteration: int = -1
    layout: str = ""
    quantised: bool = False
    kind: str = "tensor"

    @property
    def name(self) -> str:
        """Return the file name."""
        first = f"iter_{self.iteration}_" if self.iteration >= 0 else ""
        layout = f"_{self.layout}" if self.layout else ""
        dims = "".join(f"_{size}" for size in self.shape)
        return f"{first}{self.layer}_{self.port}{layout}{dims}{'.qnt' if self.quantised else ''}.{self.kind}"


def tensor_file_name(lid: str, port: str, shape: tuple[int, ...], iteration: int = 0) -> str:
    """Return the name that inference gives to a tensor: `iter_0_attach_output_out0_0_out0_1_25200_85.tensor`."""
    return TensorFile(_SIGNS.sub("_", lid), port, shape, iteration).name


def parse_tensor_name(name: str) -> TensorFile | None:
    """Return what a file name says, or None when it is not the name of a tensor."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    dims = tuple(int(size) for size in match["dims"].split("_") if size)
    return TensorFile(
        layer=match["layer"],
        port=match["port"],
        shape=dims,
        iteration=-1 if match["iteration"] is None else int(match["iteration"]),
        layout=match["layout"] or "",
        quantised=match["quantised"] is not None,
        kind=match["kind"],
    )


def read_tensor_file(path: Path, dtype: str = "float32") -> AnyArray:
    """Return the values, shaped as the name says where it does; `dtype` is that of raw .bin and .dat files.

    Raises FormatError for a file that is too large, holds what is no number, or has another count than its name says.
    """
    try:
        if path.stat().st_size > MAX_TENSOR_BYTES:
            raise FormatError(f"larger than {MAX_TENSOR_BYTES} bytes.", path=str(path), line=0, code="TOO_LARGE")
        values = _values(path, dtype)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror}.", path=str(path), line=0, code="UNREADABLE") from error
    known = parse_tensor_name(path.name)
    if known is None or not known.shape or values.ndim > 1:
        return values
    if int(np.prod(known.shape, dtype=np.int64)) != values.size:
        raise FormatError(
            f"{values.size} values, the name says {'x'.join(map(str, known.shape))}.",
            path=str(path),
            line=0,
            code="SHAPE",
        )
    return values.reshape(known.shape)


def _values(path: Path, dtype: str) -> AnyArray:
    suffix = path.suffix.lower()
    try:
        if suffix == ".npy":
            array: AnyArray = np.load(path, allow_pickle=False)
            if array.dtype.kind not in "biuf":
                raise ValueError(f"elements of type {array.dtype}")
            return array
        if suffix in (".bin", ".dat"):
            return np.fromfile(path, dtype=np.dtype(dtype))
        content = path.read_bytes()
        values: AnyArray = np.array(content.split(), dtype=np.float64)
        return values
    except (ValueError, TypeError, EOFError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FormatError(f"no tensor: {reason}.", path=str(path), line=0, code="NUMBER") from error
