"""Scalars stay scalars."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions, Fidelity, Signature
from dovetail.backend.registry import backend, find_target
from dovetail.ir import DType, Graph, Node, TensorType


@pytest.mark.parametrize("fidelity", Fidelity)
def test_a_scalar_that_is_cast_stays_a_scalar(fidelity):
    graph = Graph(
        name="g",
        nodes=(Node("cast", "Cast", ("x",), ("y",), {"to": 1}),),
        inputs=("x",),
        outputs=("y",),
        types={"x": TensorType(DType.I64, ()), "y": TensorType(DType.F32, ())},
        constants={},
    )
    simulator = backend("npusim")
    blob = simulator.compile(graph, find_target("vsi:v853"), CompileOptions(fidelity=fidelity))
    executable = simulator.devices()[0].load(blob, Signature.of(graph))
    result = executable.run({"x": np.array(7, np.int64)})["y"]
    assert result.shape == ()
    assert result == 7
