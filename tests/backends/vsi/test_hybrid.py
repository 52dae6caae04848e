"""The digit detector in 8 bits and in mixed plans on the vendor's simulator: every element is ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dovetail
from dovetail.backends.vsi.plugin import VsiBackend
from dovetail.compare import VerifyRequest, verify
from dovetail.data import open_samples, specs_of
from dovetail.plan import Rule, parse_placement

pytestmark = [pytest.mark.sdk, pytest.mark.slow]

WIDE = ("head/concat", "head/reshape", "head/transpose", "b4/dw*", "b4/project", "b2/expand*", "b2/dw*")
"""What `dovetail demo` raises to 16 bits."""
SAMPLES = 1


@pytest.mark.parametrize(
    "rules",
    [
        (),
        tuple(Rule(parse_placement("vsi:v853@i16"), node) for node in WIDE),
        (
            *(Rule(parse_placement("vsi:v853@i16"), node) for node in WIDE[3:]),
            Rule(parse_placement("cpu@fp32"), "head/*"),
        ),
    ],
    ids=["8 bits", "16-bit tail", "NPU and CPU"],
)
def test_a_mixed_plan_gives_what_the_exact_simulation_gives(
    rules: tuple[Rule, ...], digits: Path, graphs: VsiBackend
) -> None:
    assert graphs is not None
    graph = dovetail.normalize(dovetail.load_model(digits / "digits.onnx"))
    with np.load(digits / "calib.npz", allow_pickle=False) as file:
        calibration = [image[None].astype(np.float32) for image in file["images"]]
    ranges = dovetail.calibrate(graph, open_samples(calibration, specs_of(graph))).ranges
    recipe = dovetail.Recipe(parse_placement("vsi:v853@i8pc"), (parse_placement("cpu@fp32"),), rules)
    targets = {name: dovetail.find_target(name) for name in ("vsi:v853", "cpu")}
    parts = dovetail.partition(dovetail.quantize(graph, dovetail.make_plan(graph, recipe, targets), ranges))
    data = iter(open_samples(digits / "eval.npz", specs_of(graph)))
    samples = [next(data).inputs for _ in range(SAMPLES)]
    found = verify(parts.partitions, graph.outputs, samples, VerifyRequest(operator_samples=0))
    assert found.equal, [(item.tensor, item.steps) for item in found.outputs if item.steps.differing]
    assert sum(item.steps.elements for item in found.outputs) >= 375 * SAMPLES
