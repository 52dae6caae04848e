"""Give chosen layers the unbalanced channels that folded batch norms leave in larger networks.

ReLU is positively homogeneous: multiplying one channel of a rectified layer by k > 0 and dividing the next
layer's weights for that channel by k leaves the function as it was, and changes what 8 bits keep of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Kernel:
    """Hold a convolution's `weight` [out, in / groups, kh, kw] and `bias` [out]."""

    weight: FloatArray
    bias: FloatArray


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Spread the channel ranges between two layers evenly over `decades` powers of ten; 0 equalises them."""

    first: str
    second: str
    decades: float


def channel_factors(peaks: FloatArray, decades: float, seed: int) -> FloatArray:
    """Return the factor [C] of each channel, given the largest activation seen in it; 1 for dead channels."""
    channels = len(peaks)
    ladder = np.random.default_rng(seed).permutation(np.linspace(-decades, 0.0, channels))
    wanted = float(peaks.max()) * 10.0**ladder
    alive = peaks > 1e-6
    return np.where(alive, wanted / np.where(alive, peaks, 1.0), 1.0).astype(np.float32)


def rescale(kernels: dict[str, Kernel], pair: Imbalance, factors: FloatArray) -> dict[str, Kernel]:
    """Return the kernels with the pair's channels multiplied on one side and divided on the other."""
    first, second = kernels[pair.first], kernels[pair.second]
    depthwise = second.weight.shape[1] == 1
    by_channel = factors[:, None, None, None] if depthwise else factors[None, :, None, None]
    return kernels | {
        pair.first: Kernel(first.weight * factors[:, None, None, None], first.bias * factors),
        pair.second: Kernel(second.weight / by_channel, second.bias),
    }
