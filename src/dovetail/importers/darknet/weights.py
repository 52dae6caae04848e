"""Darknet's .weights files: a header, then float32 numbers in the order of the layers."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from dovetail.errors import LoadError
from dovetail.ir import AnyArray


@dataclass(slots=True)
class Weights:
    """Numbers in the order of the file."""

    numbers: AnyArray
    where: str
    taken: int = 0

    def take(self, shape: tuple[int, ...], label: str) -> AnyArray:
        """Return the next numbers as an array; raise LoadError when the file ends before."""
        count = 1
        for size in shape:
            count *= size
        if min((*shape, 1)) < 0 or self.taken + count > self.numbers.size:
            raise LoadError(
                f"{self.where}: the weights end at {self.numbers.size} numbers; {label} wants {count} from "
                f"{self.taken} on.",
                source_node=label,
                hint="Take the .weights file that belongs to this .cfg.",
            )
        start, self.taken = self.taken, self.taken + count
        return np.asarray(self.numbers[start : self.taken].reshape(shape))

    def finish(self) -> None:
        """Raise LoadError when numbers are left over: the two files do not belong together."""
        if self.taken != self.numbers.size:
            raise LoadError(
                f"{self.where}: {self.numbers.size - self.taken} of {self.numbers.size} weights belong to no layer.",
                hint="Take the .weights file that belongs to this .cfg.",
            )


def read_weights(data: bytes, where: str) -> Weights:
    """Return the numbers of a .weights file: the count of seen images has 64 bits from version 0.2 on."""
    if len(data) < 16:
        raise LoadError(f"{where}: the .weights file is cut short at {len(data)} bytes.")
    major, minor, _ = struct.unpack_from("<3i", data)
    start = 20 if major * 10 + minor >= 2 and major < 1000 and minor < 1000 else 16
    body = data[start:]
    if len(body) % 4:
        raise LoadError(f"{where}: the .weights file of {len(data)} bytes does not hold whole numbers.")
    return Weights(np.frombuffer(body, "<f4").astype(np.float32, copy=False), where)
