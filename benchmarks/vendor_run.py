"""Whole models on VeriSilicon's simulator beside our exact simulation: `python benchmarks/vendor_run.py`.

Prints the speed of both on one model and what the worker process adds to a run; then for some models that came
quantised, and for mixed plans, whether every output element is equal, with the time and the score of both. All models
of the collection, tensor by tensor, are those of `vendor_models.py`. Needs the SDK and the collected models
($DOVETAIL_MODELS).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import numpy as np

import dovetail
from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backend.registry import backend, find_target
from dovetail.backends.verisilicon.plugin import VsiExecutable
from dovetail.compare import random_samples
from dovetail.data import Sample
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.partition import Partition
from zoo.vendor_whole import HEADINGS, Case, digit_cases, measure

MODELS = {
    ("ResNet8", "i8pc"): "ic01_resnet8_cifar10/resnet8_int8.tflite",
    ("DS-CNN", "i8pc"): "kws01_dscnn/kws_ref_model_int8.tflite",
    ("MobileNetV1 0.25 128", "u8"): "mbv1_uint8_coral/mobilenet_v1_0.25_128_quant.tflite",
}
SPEED = "mbv1_uint8_coral/mobilenet_v1_0.25_128_quant.tflite"


def folder() -> Path:
    """Return the folder of the collected models."""
    return Path(os.environ.get("DOVETAIL_MODELS", Path(__file__).parents[1] / ".." / "shared" / "models"))


def load(path: str) -> Graph:
    """Return a quantised model in normal form."""
    return dovetail.normalize(dovetail.load_model(folder() / path))


def whole_models(targets: list[str], samples: int) -> list[Case]:
    """Return the collected models for each part, with random samples."""
    found = []
    for (title, precision), path in MODELS.items():
        graph = load(path)
        data = tuple(Sample(str(index), one) for index, one in enumerate(random_samples(graph, samples, 0)))
        found += [
            Case(title, target, precision, (Partition(0, target, graph),), graph.outputs, data) for target in targets
        ]
    return found


def seconds(run: object, sample: object, times: int) -> float:
    """Return the median of some runs after one that does not count."""
    assert callable(run)
    run(sample)
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run(sample)
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def speed(target: str) -> None:
    """Print how long one sample takes on both."""
    graph, known = load(SPEED), find_target(target)
    signature = Signature.of(graph)
    (sample,) = random_samples(graph, 1, 0)
    taken = {}
    for name, times in (("npusim", 20), ("vsi", 2)):
        one = backend(name)
        executable = one.devices()[0].load(one.compile(graph, known, CompileOptions()), signature)
        taken[name] = seconds(executable.run, sample, times)
        executable.close()
    ratio = taken["vsi"] / taken["npusim"]
    ours, theirs = taken["npusim"] * 1e3, taken["vsi"] * 1e3
    print(f"\n{SPEED} on {target}: npusim exact {ours:.2f} ms, vendor {theirs:.0f} ms, {ratio:.0f}x")


def overhead(target: str) -> None:
    """Print what the worker adds to a run of about 100 ms, beside the calls of the C interface inside it."""
    quant = Quantization((0.5,), (3,))
    kinds = {
        "x": TensorType(DType.U8, (1, 16, 56, 56), quant),
        "w": TensorType(DType.U8, (16, 16, 1, 1), Quantization((0.25,), (128,))),
        "y": TensorType(DType.U8, (1, 16, 56, 56), Quantization((8.0,), (128,))),
    }
    weight = np.random.default_rng(0).integers(0, 256, (16, 16, 1, 1)).astype(np.uint8)
    graph = Graph("one", (Node("c", "Conv", ("x", "w"), ("y",)),), ("x",), ("y",), kinds, {"w": weight})
    one = backend("vsi")
    signature = Signature({"x": kinds["x"]}, {"y": kinds["y"]})
    executable = one.devices()[0].load(one.compile(graph, find_target(target), CompileOptions()), signature)
    assert isinstance(executable, VsiExecutable)
    (sample,) = random_samples(graph, 1, 0)
    executable.run(sample)
    outer, inner = [], []
    for _ in range(10):
        start = time.perf_counter_ns()
        executable.run(sample)
        outer.append(time.perf_counter_ns() - start)
        inner.append(executable.last_run_ns)
    executable.close()
    whole, bare = sum(outer), sum(inner)
    print(f"worker: {whole / 1e7:.1f} ms a run, {bare / 1e7:.1f} ms of it in the C interface: {whole / bare:.4f}x")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default="vsi:v853,vsi:a311d")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--speed-only", action="store_true")
    asked = parser.parse_args()
    targets = asked.targets.split(",")
    speed(targets[0])
    overhead(targets[0])
    if asked.speed_only:
        return
    digits = [case for case in digit_cases(1) if case.target in targets]
    print(" | ".join(HEADINGS))
    for case in (*whole_models(targets, asked.samples), *digits):
        print(" | ".join(measure(case).cells), flush=True)


if __name__ == "__main__":
    main()
