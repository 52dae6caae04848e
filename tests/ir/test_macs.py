"""Multiply-accumulates against a count of the terms by brute force."""

from __future__ import annotations

import pytest

from dovetail.ir import parse_graph
from dovetail.ir.macs import graph_macs


def graph_text(inputs: str, weight: str, node: str) -> str:
    """One node with a weight of zeros."""
    return "\n".join(
        ['graph "g" opset 21', f'input "x": {inputs}', f'input "w": {weight}', node, 'output "y"', "end", ""]
    )


@pytest.mark.parametrize(
    ("inputs", "weight", "node", "expected"),
    [
        # Every output element of a convolution sums over its group's channels and the kernel.
        ("f32[1, 6, 8, 8]", "f32[4, 6, 3, 3]", '"n" = Conv("x", "w") -> ("y": f32[1, 4, 6, 6])', 4 * 36 * 6 * 9),
        (
            'f32["N", 6, 8, 8]',
            "f32[6, 1, 3, 3]",
            '"n" = Conv("x", "w") -> ("y": f32["N", 6, 6, 6]) {"group": 6}',
            6 * 36 * 9,
        ),
        # Every input element of a transposed one is spread over its group's outputs and the kernel.
        (
            "f32[1, 6, 5, 5]",
            "f32[6, 4, 2, 2]",
            '"n" = ConvTranspose("x", "w") -> ("y": f32[1, 4, 6, 6])',
            6 * 25 * 4 * 4,
        ),
        ("f32[2, 7]", "f32[7, 3]", '"n" = Gemm("x", "w") -> ("y": f32[2, 3])', 2 * 3 * 7),
        ("f32[7, 2]", "f32[3, 7]", '"n" = Gemm("x", "w") -> ("y": f32[2, 3]) {"transA": 1, "transB": 1}', 2 * 3 * 7),
        ("f32[5, 2, 7]", "f32[5, 7, 3]", '"n" = MatMul("x", "w") -> ("y": f32[5, 2, 3])', 5 * 2 * 3 * 7),
        ("f32[2, 7]", "f32[2, 7]", '"n" = Add("x", "w") -> ("y": f32[2, 7])', 0),
        ("f32[7]", "f32[7, 3]", '"n" = MatMul("x", "w") -> ("y": f32[3])', 3 * 7),
        ('f32["N", 7]', "f32[7, 3]", '"n" = Gemm("x", "w") -> ("y": f32["N", 3])', 3 * 7),
        ("f32[2, 7]", "f32[7, 3]", '"n" = my.own::MatMul("x", "w") -> ("y": f32[2, 3])', 0),
        ("f32[*]", "f32[7, 3]", '"n" = MatMul("x", "w") -> ("y": f32[2, 3])', None),
        ("f32[2, 7]", "f32[*]", '"n" = MatMul("x", "w") -> ("y": f32[2, 3])', None),
        ("f32[2, 7]", "f32[7, 3]", '"n" = MatMul("x", "w") -> ("y": f32[*])', None),
        ("f32[2]", "f32[]", '"n" = Gemm("x", "w") -> ("y": f32[2])', None),
        # Only the batch counts as one.
        ('f32[1, 2, "H", "W"]', "f32[1, 2, 1, 1]", '"n" = Conv("x", "w") -> ("y": f32[1, 1, "H", "W"])', None),
        ("f32[?, 7]", "f32[7, 3]", '"n" = MatMul("x", "w") -> ("y": f32[?, 3])', None),
    ],
)
def test_counts(inputs: str, weight: str, node: str, expected: int | None) -> None:
    assert graph_macs(parse_graph(graph_text(inputs, weight, node))) == expected


def test_a_graph_is_the_sum_of_its_nodes() -> None:
    lines = [
        'graph "g" opset 21',
        'input "x": f32[2, 7]',
        'input "w": f32[7, 3]',
        '"n" = MatMul("x", "w") -> ("y": f32[2, 3])',
        '"r" = Relu("y") -> ("z": f32[2, 3])',
        '"m" = Gemm("x", "w") -> ("v": f32[2, 3])',
        'output "z"',
        "end",
        "",
    ]
    assert graph_macs(parse_graph("\n".join(lines))) == 2 * (2 * 3 * 7)
    assert graph_macs(parse_graph('graph "g" opset 21\nend\n')) == 0
