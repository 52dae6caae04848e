"""Extremes of two tensors whose steps are far apart, against the float function: their lowering loses no step."""

from __future__ import annotations

import draws
import numpy as np
import pytest

from dovetail.backend.protocols import Signature
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import profile_of
from dovetail.backends.verisilicon.program import StoredForm
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.quantize import Range
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import deploy

_CASES = 40
_PRECISIONS = (Precision.U8, Precision.I8, Precision.I8DFP, Precision.I16)
_SHAPES = ((1,), (1, 3, 4, 5))


def _drawn(rng: np.random.Generator, seed: int) -> WildCase:
    shape = _SHAPES[int(rng.integers(len(_SHAPES)))]
    most = 10.0 ** rng.uniform(-9, 2)
    far = most * 2.0 ** rng.uniform(-4, 26)
    kinds = {name: TensorType(DType.F32, shape) for name in "xzy"}
    node = Node("n", str(rng.choice(("Min", "Max"))), ("x", "z"), ("y",))
    span = Range(-0.3 * most, most)
    ranges = {"x": span, "z": Range(float(rng.choice((-0.5, 0.2))) * far, far), "y": span}
    return WildCase(Graph("extreme", (node,), ("x", "z"), ("y",), kinds, {}), ranges, seed)


def _reals(stored: AnyArray, form: StoredForm) -> AnyArray:
    step = form.scale or 2.0**-form.fl
    return (stored.astype(np.float64) - form.zero_point) * step


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:v853", "vsi:a733"])
def test_extremes_are_within_a_step_of_the_float_function(target: str) -> None:
    seed = draws.seed_here()
    rng = np.random.default_rng(seed)
    profile = profile_of(next(item for item in VSI_PROFILES if item.name == target))
    for index in range(_CASES):
        case = _drawn(rng, seed + index)
        for precision in _PRECISIONS:
            (part,) = deploy(case, profile, precision)[1]
            program = part.program
            inputs, (output,) = [program.tensors[at].form for _, at in program.inputs], program.outputs
            made = program.tensors[output[1]].form
            emulation = Emulation(program, Signature.of(part.graph))
            for sample in part.samples:
                reals = [_reals(sample[name], form) for (name, _), form in zip(program.inputs, inputs, strict=True)]
                exact = (np.minimum if case.graph.nodes[0].op == "Min" else np.maximum)(*reals)
                found = emulation.run(sample)[output[0]]
                ends = np.iinfo(found.dtype)
                step = made.scale or 2.0**-made.fl
                wanted = np.clip(exact / step + made.zero_point, ends.min, ends.max)
                said = f"seed {seed + index} {precision.value} {case.ranges}"
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1.01, err_msg=said)
