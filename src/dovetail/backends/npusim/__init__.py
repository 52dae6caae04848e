"""Simulated NPUs: exact integers with the target's rounding, or Q/DQ in float32 for speed."""

from dovetail.backends.npusim.simulator import backend

__all__ = ["backend"]
