"""Boundaries: which operator brings a tensor from one type to another, and where it runs."""

from __future__ import annotations

from dovetail.ir.node import DOVETAIL_DOMAIN
from dovetail.ir.precision import Precision
from dovetail.ir.types import TensorType
from dovetail.plan.placement import HOST, Placement

WORLD = Placement(HOST, Precision.FP32)
"""Where graph inputs come from and graph outputs go to."""


def boundary_op(source: TensorType, target: TensorType) -> tuple[str, str]:
    """Return the operator and its domain."""
    if source.quant is not None and target.quant is not None:
        return "Requantize", DOVETAIL_DOMAIN
    if target.quant is not None:
        return "QuantizeLinear", ""
    if source.quant is not None:
        return "DequantizeLinear", ""
    return "Cast", ""


def boundary_placement(producer: Placement, consumer: Placement) -> Placement:
    """Convert where both sides are, else on the CPU side, so that the narrow format crosses the border."""
    if producer.target == consumer.target:
        return consumer
    return WORLD if HOST in (producer.target, consumer.target) else consumer
