"""Write small Caffe networks: a text, and trained blobs in protobuf's wire format."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from dovetail.ir import AnyArray


def write_caffe(folder: Path, layers: str, blobs: Mapping[str, Sequence[AnyArray]], shape: Sequence[int]) -> Path:
    """Write `net.prototxt` with one input `data` beside `net.caffemodel`; return the first."""
    sizes = ", ".join(map(str, shape))
    (folder / "net.prototxt").write_text(f'name: "net"\ninput: "data" input_dim: [{sizes}]\n{layers}\n')
    model = b"".join(caffe_layer(name, *values) for name, values in blobs.items())
    (folder / "net.caffemodel").write_bytes(model)
    return folder / "net.prototxt"


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def caffe_layer(name: str, *blobs: AnyArray) -> bytes:
    content = _field(1, name.encode())
    for blob in blobs:
        shape = _field(7, _field(1, b"".join(_varint(size) for size in blob.shape)))
        content += _field(7, shape + _field(5, struct.pack(f"<{blob.size}f", *blob.reshape(-1))))
    return _field(100, content)
