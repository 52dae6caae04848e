"""Graphs on disk: the text form with constants as raw little-endian bytes behind it.

Layout: the line `dovetail graph 1 <bytes of text>`, the text, then the constants; in the text a constant is
`@<offset>:<bytes>`. Readable with numpy alone. The file is untrusted.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from dovetail.errors import BundleError, GraphError
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.parse import parse_lines
from dovetail.ir.text import graph_lines

_HEADER = re.compile(rb"dovetail graph 1 (\d{1,12})\n")
_REFERENCE = re.compile(r"@(\d{1,15}):(\d{1,15})$")


def graph_to_bytes(graph: Graph) -> bytes:
    """Return a graph as bytes; equal graphs give equal bytes."""
    chunks: list[bytes] = []
    offset = 0

    def refer(array: AnyArray) -> str:
        nonlocal offset
        payload = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        start, offset = offset, offset + len(payload)
        chunks.append(payload)
        return f"@{start}:{len(payload)}"

    text = ("\n".join(graph_lines(graph, refer)) + "\n").encode()
    return b"dovetail graph 1 %d\n" % len(text) + text + b"".join(chunks)


def graph_from_bytes(data: bytes, where: str = "graph file") -> Graph:
    """Return the graph in these bytes; raise BundleError when they are damaged."""
    header = _HEADER.match(data)
    if header is None:
        raise BundleError(f"{where}: not a Dovetail graph.", hint="Make the bundle again with 'dovetail compile'.")
    start = header.end()
    stop = start + int(header.group(1))
    if stop > len(data):
        raise BundleError(f"{where}: cut short at {len(data)} bytes.", hint="Copy the file again.")
    payload = memoryview(data)[stop:]

    def fetch(text: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> AnyArray:
        reference = _REFERENCE.match(text)
        if reference is None:
            raise ValueError("a constant is not of the form @offset:bytes")
        offset, size = int(reference.group(1)), int(reference.group(2))
        if offset + size > len(payload) or size != int(np.prod(shape, dtype=np.int64)) * dtype.itemsize:
            raise ValueError("a constant lies outside the file or has the wrong size")
        raw = np.frombuffer(payload[offset : offset + size], dtype=dtype.newbyteorder("<"))
        return raw.astype(dtype).reshape(shape)

    try:
        return parse_lines(bytes(data[start:stop]).decode().splitlines(), fetch)
    except (GraphError, UnicodeDecodeError) as error:
        raise BundleError(f"{where}: damaged: {error}", hint="Copy the file again.") from error


def save_graph(graph: Graph, path: Path) -> None:
    """Write a graph to a file."""
    path.write_bytes(graph_to_bytes(graph))


def load_graph(path: Path) -> Graph:
    """Return the graph in a file; raise BundleError when it is missing or damaged."""
    try:
        return graph_from_bytes(path.read_bytes(), str(path))
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}.") from error
