"""Content digests of graphs."""

from __future__ import annotations

import hashlib

from dovetail.ir.dtypes import AnyArray
from dovetail.ir.node import Body
from dovetail.ir.text import graph_lines


def digest_graph(graph: Body) -> str:
    """Return the SHA-256 of a graph as hex: its text form, with constants hashed as little-endian bytes."""
    hasher = hashlib.sha256()

    def hash_constant(array: AnyArray) -> str:
        return digest_array(array)

    for line in graph_lines(graph, hash_constant):
        hasher.update(line.encode())
        hasher.update(b"\n")
    return hasher.hexdigest()


def digest_array(array: AnyArray) -> str:
    """Return the SHA-256 of an array's type, shape and little-endian bytes."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    hasher = hashlib.sha256(f"{little.dtype.str}{little.shape}".encode())
    hasher.update(little.tobytes())
    return hasher.hexdigest()
