"""Arrays that begin at a cache line, which is where vendors' kernels like to read and write."""

from __future__ import annotations

import numpy as np

from dovetail.backend.protocols import ALIGNMENT_BYTES
from dovetail.ir import AnyArray


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[np.generic], memory: AnyArray | None = None) -> AnyArray:
    """Return an array in C order whose values are not set; `memory` is bytes that begin at a cache line."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if memory is None:
        raw = np.empty(size + ALIGNMENT_BYTES, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT_BYTES
        memory = raw[start:]
    return memory[:size].view(dtype).reshape(shape)
