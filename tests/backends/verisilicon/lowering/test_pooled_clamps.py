"""A clamp behind a pooled product gets a copy where the compiler would join the two, and lose the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.program import Program
from dovetail.ir.precision import Precision
from dovetail.quantize.ranges import Range
from dovetail.testing.wild.case import WildCase, read_case
from dovetail.testing.wild.deploying import deploy

CASE, _ = read_case(Path(__file__).parents[1] / "cases" / "graph-v853-11290301-31.npz")
"""A convolution, a maximum over a row, a ReLU and a Concat; product and ReLU are stored alike."""


def _program(case: WildCase, target: str, precision: Precision) -> Program:
    profile = next(item for item in VSI_PROFILES if item.name == target)
    (deployed,) = deploy(case, profile, precision)[1]
    program = deployed.program
    assert isinstance(program, Program)
    return program


def _clamped(program: Program) -> str:
    """Return the kind of what makes that which the clamp reads."""
    (clamp,) = (item for item in program.operators if item.kind == "relu")
    return next(item.kind for item in program.operators if clamp.inputs[0] in item.outputs)


def _averaging() -> WildCase:
    nodes = [
        replace(node, op="AveragePool", attributes={**node.attributes, "count_include_pad": 0})
        if node.op == "MaxPool"
        else node
        for node in CASE.graph.nodes
    ]
    return replace(CASE, graph=CASE.graph.evolve(nodes=tuple(nodes)))


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:imx8mp", "vsi:v853", "vsi:t527"])
def test_unsigned_bytes_alone_are_copied(target: str) -> None:
    assert _clamped(_program(CASE, target, Precision.U8)) == "data_convert"
    assert _clamped(_program(CASE, target, Precision.I16)) == "pool2d"


def test_a_maximum_is_clamped_before_only_where_the_product_is_stored_as_the_result() -> None:
    ranges = {**CASE.ranges, "t15": Range(0.0, 1.5)}
    assert _clamped(_program(replace(CASE, ranges=ranges), "vsi:v853", Precision.U8)) == "pool2d"
    averaging = replace(_averaging(), ranges=ranges)
    assert _clamped(_program(averaging, "vsi:v853", Precision.U8)) == "data_convert"
