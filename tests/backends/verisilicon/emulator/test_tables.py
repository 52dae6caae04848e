"""Tables that hold infinities are read without a word."""

from __future__ import annotations

import warnings

import numpy as np

from dovetail.backends.verisilicon.emulator.tables import between


def test_tables_that_hold_infinities_are_read() -> None:
    """Of a Tan or Log a knot may be infinite: what lies beside it is, and at a finite knot its own value stands."""
    knots, values = np.array([0.0, 1.0, 2.0, 3.0]), np.array([-np.inf, 4.0, np.inf, 5.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = between(np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]), knots, values)
    assert found.tolist() == [-np.inf, -np.inf, 4.0, np.inf, np.inf, np.inf, 5.0]
