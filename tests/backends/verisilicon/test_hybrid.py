"""The digit detector in 8 bits and in mixed plans on the vendor's simulator: every element and the score are ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.backend.protocols import Backend, CompileOptions
from dovetail.backend.registry import backend, find_target
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.compare import load_metric
from dovetail.data import open_samples, specs_of
from dovetail.ir import AnyArray
from dovetail.partition import Partition
from dovetail.plan import Rule, parse_placement
from dovetail.testing.agreement import load_on

pytestmark = [pytest.mark.sdk, pytest.mark.slow]

WIDE = ("head/concat", "head/reshape", "head/transpose", "b4/dw*", "b4/project", "b2/expand*", "b2/dw*")
"""What `dovetail demo` raises to 16 bits."""
TAIL = tuple(Rule(parse_placement("vsi:v853@i16"), node) for node in WIDE)
SPLIT = (*TAIL[3:], Rule(parse_placement("cpu@fp32"), "head/*"))


def values_of(parts: Sequence[Partition], sample: Mapping[str, AnyArray], npu: Backend) -> dict[str, AnyArray]:
    """Return all that enters and leaves the partitions; those on the NPU run on a backend."""
    values = dict(sample)
    for part in parts:
        one = backend("cpu") if part.target == "cpu" else npu
        executable = load_on(one, part.graph, find_target(part.target), CompileOptions())
        values.update(executable.run({name: values[name] for name in part.graph.inputs}))
        executable.close()
    return values


@pytest.mark.parametrize(
    ("low", "rules"),
    [
        ("vsi:v853@i8pc", ()),
        ("vsi:v853@u8", ()),
        ("vsi:a311d@u8", ()),
        ("vsi:v853@i8pc", TAIL),
        ("vsi:v853@i8pc", SPLIT),
    ],
    ids=["signed bytes", "unsigned bytes", "unsigned bytes on the older part", "16-bit tail", "NPU and CPU"],
)
def test_a_plan_gives_what_the_exact_simulation_gives(
    low: str, rules: tuple[Rule, ...], digits: Path, graphs: VsiBackend
) -> None:
    graph = dovetail.normalize(dovetail.load_model(digits / "digits.onnx"))
    with np.load(digits / "calib.npz", allow_pickle=False) as file:
        calibration = [image[None].astype(np.float32) for image in file["images"]]
    ranges = dovetail.calibrate(graph, open_samples(calibration, specs_of(graph))).ranges
    first = parse_placement(low)
    recipe = dovetail.Recipe(first, (parse_placement("cpu@fp32"),), rules)
    targets = {name: find_target(name) for name in (first.target, "cpu")}
    parts = dovetail.partition(dovetail.quantize(graph, dovetail.make_plan(graph, recipe, targets), ranges)).partitions
    (sample,) = open_samples(digits / "eval.npz", specs_of(graph)).subset([0])
    theirs, ours = (values_of(parts, sample.inputs, npu) for npu in (graphs, backend("npusim")))
    differing = {name: int(np.count_nonzero(theirs[name] != ours[name])) for name in theirs}
    assert differing == dict.fromkeys(ours, 0)
    assert sum(theirs[name].size for name in graph.outputs) == 375
    metric = load_metric(f"{digits / 'metric.py'}:score")
    labels = {name: value[None] for name, value in sample.labels.items()}
    scores = [float(metric.score(values, labels)) for values in (theirs, ours)]
    assert scores[0] == scores[1]
    # In 8 bits the detector finds nothing that it should; the plans do.
    assert scores[0] == float(bool(rules))
