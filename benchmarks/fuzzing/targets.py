"""The fuzz targets by name: each is one or more parsers of the same kind of bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fuzzing import outside, own
from fuzzing.network import Small, small_network
from fuzzing.parser import Parser
from judges.fuzz_corpus import specimens

_CONVERTED = (".pt", ".pt2", ".keras", ".pb", ".pdmodel")


def _models(wanted: Callable[[str], bool]) -> Callable[[Small, Path], tuple[Parser, ...]]:
    return lambda small, folder: outside.models(list(specimens(folder)), wanted)


def _requests(small: Small, folder: Path) -> tuple[Parser, ...]:
    from fuzzing.served import requests

    return requests(small, folder)


TARGETS: Mapping[str, Callable[[Small, Path], tuple[Parser, ...]]] = {
    "plans": lambda small, folder: (*own.plans(small), *own.ranges(small, folder)),
    "graphs": lambda small, folder: own.graphs(small),
    "bundles": own.bundles,
    "search": lambda small, folder: own.search_files(folder),
    "records": own.records,
    "people": outside.people,
    "toolchains": lambda small, folder: outside.toolchains(small),
    "data": outside.data_files,
    "binaries": lambda small, folder: outside.binaries(folder),
    "onnx": _models(lambda name: name == "onnx"),
    "tflite": _models(lambda name: name.startswith("tflite")),
    "caffe": lambda small, folder: outside.trained_caffe(folder),
    "darknet": _models(lambda name: name.startswith("darknet")),
    "converted": _models(lambda name: name in _CONVERTED),
    "requests": _requests,
}


def parsers_of(target: str, folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of a target; what they need is written into a folder."""
    return TARGETS[target](small_network(), folder)
