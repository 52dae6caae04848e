"""Mutate model files and load them: every one loads or raises LoadError, in bounded time and memory.

python benchmarks/fuzz_importers.py [FILE...] [--count 10000] [--seed 0]

Without files, small ones of every format share the count (`make fuzz`).
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dovetail.errors import LoadError
from judges.fuzz_corpus import Specimen, specimens

Load = Callable[[bytes], object]
_SLOW_S = 10.0


@dataclass(frozen=True, slots=True)
class Broken:
    """A mutant that ended otherwise than it may."""

    number: int
    problem: str


def mutate(data: bytes, generator: np.random.Generator) -> bytes:
    """Return a damaged copy: bytes flipped, numbers made extreme, pieces cut out, doubled or swapped."""
    changed = bytearray(data)
    for _ in range(int(generator.integers(1, 5))):
        at = int(generator.integers(0, max(1, len(changed))))
        match int(generator.integers(0, 6)):
            case 0:
                changed[at : at + 1] = bytes([int(generator.integers(0, 256))])
            case 1:
                extreme = int(generator.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 0x10000]))
                at -= at % 4
                changed[at : at + 4] = extreme.to_bytes(4, "little")
            case 2:
                del changed[at:]
            case 3:
                del changed[at : at + int(generator.integers(1, 64))]
            case 4:
                piece = changed[at : at + int(generator.integers(1, 64))]
                changed[at:at] = piece
            case _:
                other = int(generator.integers(0, max(1, len(changed))))
                changed[at : at + 4], changed[other : other + 4] = changed[other : other + 4], changed[at : at + 4]
    return bytes(changed)


def head_first(data: bytes, generator: np.random.Generator) -> bytes:
    """Return a mutant; half of them are damaged outside the bulk of the weights, near either end."""
    if generator.integers(0, 2) or len(data) < 8192:
        return mutate(data, generator)
    if generator.integers(0, 2):
        return mutate(data[:4096], generator) + data[4096:]
    return data[:-4096] + mutate(data[-4096:], generator)


def fuzz(data: bytes, load: Load, count: int, seed: int) -> tuple[Counter[str], list[Broken]]:
    """Return how the mutants ended, and those that ended otherwise than by a Graph or a LoadError."""
    generator = np.random.default_rng(seed)
    ends: Counter[str] = Counter()
    broken: list[Broken] = []
    for number in range(count):
        mutant = head_first(data, generator)
        started = time.perf_counter()
        try:
            load(mutant)
            ends["loaded"] += 1
        except LoadError:
            ends["refused"] += 1
        except Exception as error:  # what a fuzzer is for
            broken.append(Broken(number, f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"))
        if time.perf_counter() - started > _SLOW_S:
            broken.append(Broken(number, f"took {time.perf_counter() - started:.1f} s"))
    return ends, broken


def fuzz_half(network: Path, half: Path, count: int, seed: int) -> tuple[Counter[str], list[Broken]]:
    """Return how the mutants of one of a network's two files ended; the file is overwritten."""
    from dovetail.importers import load_model

    def load(data: bytes) -> object:
        half.write_bytes(data)
        return load_model(network)

    return fuzz(half.read_bytes(), load, count, seed)


def _loader(path: Path) -> Load:
    from dovetail.importers import load_onnx
    from dovetail.importers.tflite import load_tflite

    return load_tflite if path.suffix == ".tflite" else load_onnx


def main() -> int:
    """Fuzz the files of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        given = [Specimen(path.name, path.read_bytes(), _loader(path)) for path in arguments.files]
        found = given or list(specimens(Path(folder)))
        count = arguments.count if given else -(-arguments.count // len(found))
        failed = [item.format for item in found if not _report(item, count, arguments.seed)]
    return int(bool(failed))


def _report(item: Specimen, count: int, seed: int) -> bool:
    """Print how the mutants of one file ended; return whether all ended as they may."""
    started = time.perf_counter()
    ends, broken = fuzz(item.data, item.load, count, seed)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{item.format}: {dict(ends)}, broken {len(broken)}, {time.perf_counter() - started:.0f} s, {peak_mb} MB")
    for one in broken[:20]:
        print(f"  {one.number}: {one.problem}")
    return not broken


if __name__ == "__main__":
    sys.exit(main())
