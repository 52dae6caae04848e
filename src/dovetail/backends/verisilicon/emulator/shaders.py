"""Functions that the programmable shaders compute in 16 bits, from float32 to float32.

The order of operations is that of the public kernels of ovxlib (TIM-VX, `libnnext/ops/vx`) and was checked on the
vendor's simulator with all values of 16 bits: equal on each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy import float32

from dovetail.backends.verisilicon.emulator.singles import LN_2, LOG2_E, cosine, exp2, log2, sine
from dovetail.ir import AnyArray

FUNCTIONS: dict[str, Callable[[AnyArray], AnyArray]] = {
    "cos": cosine,
    "exp": lambda values: exp2(values * LOG2_E),
    "sin": sine,
    "softplus": lambda values: np.asarray(log2(exp2(values * LOG2_E) + float32(1)) * LN_2),
}
