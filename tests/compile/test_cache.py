"""The cache of blobs: whatever can change a blob changes its key, and damage is a miss."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.backend.protocols import Blob, CompileOptions, InferencePrecision
from dovetail.backend.registry import backend, find_target
from dovetail.compile import BlobCache
from dovetail.compile.cache import cache_key
from dovetail.ir import DType, Graph, Quantization
from dovetail.testing.networks import Network


def _graph() -> Graph:
    net = Network()
    return net.graph(net.conv(net.input("x", 1, 2, 4, 4), 2))


def _key(graph: Graph, options: CompileOptions | None = None, target: str = "cpu") -> str:
    return cache_key(backend("cpu"), find_target(target), graph, options or CompileOptions())


def _other_weight(graph: Graph) -> Graph:
    name = next(iter(graph.constants))
    value = graph.constants[name].copy()
    value.flat[0] = np.nextafter(value.flat[0], np.float32(1))
    return graph.evolve(constants={**graph.constants, name: value})


def _other_scale(graph: Graph) -> Graph:
    kind = graph.types["t0"]
    return graph.evolve(types={**graph.types, "t0": replace(kind, dtype=DType.I8, quant=Quantization((0.5,), (0,)))})


@pytest.mark.parametrize("change", [_other_weight, _other_scale], ids=["one weight by one bit", "a scale"])
def test_content_counts_and_not_shapes_alone(change: Callable[[Graph], Graph]) -> None:
    assert _key(change(_graph())) != _key(_graph())


def test_the_same_content_has_the_same_key() -> None:
    assert _key(_graph()) == _key(_graph())


@pytest.mark.parametrize(
    "options",
    [
        CompileOptions(threads=1),
        CompileOptions(profiling=True),
        CompileOptions(inference=InferencePrecision.BF16),
        CompileOptions(properties=(("a", "b"),)),
        CompileOptions(channels_last=("x",)),
    ],
)
def test_options_count(options: CompileOptions) -> None:
    assert _key(_graph(), options) != _key(_graph())


def test_target_backend_and_version_count() -> None:
    graph, options = _graph(), CompileOptions()
    assert _key(graph, target="reference") != _key(graph)
    assert cache_key(backend("reference"), find_target("cpu"), graph, options) != _key(graph)


def test_a_blob_comes_back_and_damage_is_a_miss(tmp_path: Path) -> None:
    cache = BlobCache(tmp_path / "blobs")
    assert cache.get("k") is None
    cache.put("k", Blob("f", b"payload\nwith lines"))
    assert cache.get("k") == Blob("f", b"payload\nwith lines")
    (path,) = (tmp_path / "blobs").iterdir()
    whole = path.read_bytes()
    for bad in (whole[:-1], b"", b"{}\n", b"\xff\n", whole[:-1] + b"x"):
        path.write_bytes(bad)
        assert cache.get("k") is None


def test_the_oldest_go_first(tmp_path: Path) -> None:
    cache = BlobCache(tmp_path, most_bytes=700)
    for index in range(4):
        cache.put(f"k{index}", Blob("f", bytes(200)))
        os.utime(tmp_path / f"k{index}.blob", (index, index))
    kept = [index for index in range(4) if cache.get(f"k{index}") is not None]
    assert kept
    assert kept == list(range(kept[0], 4))
    assert kept[0] > 0


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    BlobCache(tmp_path / "file" / "blobs").put("k", Blob("f", b""))
