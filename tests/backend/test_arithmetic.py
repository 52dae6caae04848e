"""An accumulator's multiplier, as targets hold it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.arithmetic import EXACT, Arithmetic, cut_mantissa


@given(st.floats(2.0**-30, 2.0**10), st.integers(1, 30))
def test_a_cut_mantissa_keeps_its_leading_bits(multiplier: float, bits: int) -> None:
    cut = Fraction(float(cut_mantissa(np.array(multiplier), bits)))
    exact = Fraction(multiplier)
    mantissa, exponent = exact, 0
    while mantissa < Fraction(1, 2):
        mantissa, exponent = mantissa * 2, exponent - 1
    while mantissa >= 1:
        mantissa, exponent = mantissa / 2, exponent + 1
    whole = (mantissa * 2**bits).__floor__()
    assert cut == Fraction(whole, 2**bits) * Fraction(2) ** exponent
    assert float(cut_mantissa(np.array(-multiplier), bits)) == -float(cut)


def _nearest(value: Fraction) -> Fraction:
    """Round a positive fraction to 24 significant bits, ties to even, without floats."""
    exponent = 0
    while value >= 2**24:
        value, exponent = value / 2, exponent + 1
    while value < 2**23:
        value, exponent = value * 2, exponent - 1
    return Fraction(round(value)) * Fraction(2) ** exponent


SCALES = st.floats(2.0**-20, 2.0**4, width=32)


@given(SCALES, SCALES, SCALES)
def test_a_multiplier_with_a_width_is_two_roundings_to_float32(data: float, weight: float, output: float) -> None:
    wanted = _nearest(_nearest(Fraction(data) * Fraction(weight)) / Fraction(output))
    found = Arithmetic(multiplier_bits=24).multiplier(data, np.array([weight]), output)
    assert Fraction(float(found[0])) == wanted
    assert float(EXACT.multiplier(data, np.array([weight]), output)[0]) == data * weight / output


@given(SCALES, SCALES, SCALES, SCALES)
def test_multipliers_of_channels_are_rounded_to_float32_once(
    data: float, weight: float, other: float, output: float
) -> None:
    found = Arithmetic(multiplier_bits=24).multiplier(data, np.array([weight, other]), output)
    assert found.tolist() == [float(np.float32(data * scale / output)) for scale in (weight, other)]


def test_one_rounding_and_two_differ() -> None:
    """Seen on vsi:t527: a sum near a tie, in one output of 600 thousand of a convolution."""
    random = np.random.default_rng(0)
    data, weights, output = 0.1, random.uniform(0.01, 0.02, 64).astype(np.float32).astype(np.float64), 0.3
    cut = Arithmetic(multiplier_bits=24)
    alone = np.concatenate([cut.multiplier(data, weights[index : index + 1], output) for index in range(64)])
    assert (cut.multiplier(data, weights, output) != alone).any()


def test_it_decides_ties() -> None:
    """The scales' product over 0.001 is no power of two in exact arithmetic; the array multiplies by one half."""
    data, weight, output = (float(np.float32(value)) for value in (0.05, 0.01, 0.001))
    assert data * weight / output != 0.5
    assert float(Arithmetic(multiplier_bits=16).multiplier(data, np.array([weight]), output)[0]) == 0.5
