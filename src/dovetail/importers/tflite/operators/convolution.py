"""Convolutions: data `[N, H, W, C]` and weights `[O, H, W, I]` become ONNX's `[N, C, H, W]` and `[O, I, H, W]`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.importers.tflite.layout import TensorForm
from dovetail.importers.tflite.operators.hybrid import run_hybrid
from dovetail.importers.tflite.operators.table import Converters
from dovetail.importers.tflite.operators.weights import Kernel, is_hybrid, read_bias, read_weight
from dovetail.importers.tflite.site import Attributes, Site

_SAME = 0


def same_pads(site: Site, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return the pads of SAME: the output has ceil(size / stride), the odd one goes behind. VALID has none."""
    if site.operator.options.integer("Padding") != _SAME:
        return (0,) * (2 * len(sizes))
    if any(stride < 1 for stride in strides):
        raise site.fail(f"its strides are {list(strides)}")
    begins: list[int] = []
    ends: list[int] = []
    for size, extent, stride in zip(sizes, kernel, strides, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + extent - size)
        begins.append(total // 2)
        ends.append(total - total // 2)
    return (*begins, *ends)


def axes_options(site: Site, name: str, rank: int) -> tuple[int, ...]:
    """Return an option of each spatial axis, such as `Stride` or `Dilation...Factor`."""
    letters = ("D", "H", "W")[-rank:]
    options = site.operator.options
    return tuple(options.integer(name.replace("?", letter), 1) for letter in letters)


def _check_rank(site: Site, data: int, weight: int, spatial: int) -> None:
    for index in (data, weight):
        if site.rank(index) != spatial + 2:
            raise site.fail(f"input {index} has rank {site.rank(index)}, not {spatial + 2}")
        if 0 in site.shape(index):
            raise site.fail(f"input {index} is empty")


def _finish(site: Site, kernel: Kernel, attributes: Attributes) -> None:
    if is_hybrid(site, kernel) and site.scope.settings.exact_hybrid and site.value(kernel.weight) is not None:
        run_hybrid(site, kernel, "Conv", attributes)
        return
    weight = read_weight(site, kernel)
    bias = read_bias(site, kernel, weight)
    site.finish("Conv", (site.read(kernel.data, TensorForm.FIRST), weight, *bias), attributes, TensorForm.FIRST)


def _window(site: Site, spatial: int, extents: Sequence[int]) -> dict[str, object]:
    strides = axes_options(site, "Stride?", spatial)
    dilations = axes_options(site, "Dilation?Factor", spatial)
    if any(not 1 <= item < 2**31 for item in (*strides, *dilations)):
        raise site.fail(f"its strides are {list(strides)} and its dilations {list(dilations)}")
    reach = [(extent - 1) * dilation + 1 for extent, dilation in zip(extents, dilations, strict=True)]
    pads = same_pads(site, site.shape(0)[1:-1], reach, strides)
    return {"kernel_shape": tuple(extents), "strides": strides, "dilations": dilations, "pads": pads}


def _conv_2d(site: Site) -> None:
    _check_rank(site, 0, 1, 2)
    _, height, width, channels = site.shape(1)
    groups, rest = divmod(site.shape(0)[-1], channels)
    if rest or groups < 1:
        raise site.fail(f"its weight is for {channels} channels, its data has {site.shape(0)[-1]}")
    attributes = _window(site, 2, (height, width)) | {"group": groups}
    _finish(site, Kernel(0, 1, 2, (0, 3, 1, 2)), attributes)


def _depthwise(site: Site) -> None:
    _check_rank(site, 0, 1, 2)
    ones, height, width, outputs = site.shape(1)
    channels = site.shape(0)[-1]
    if ones != 1 or outputs % channels:
        raise site.fail(f"its weight {list(site.shape(1))} does not fit {channels} channels")
    attributes = _window(site, 2, (height, width)) | {"group": channels}
    _finish(site, Kernel(0, 1, 2, (3, 0, 1, 2)), attributes)


def _conv_3d(site: Site) -> None:
    _check_rank(site, 0, 1, 3)
    extents = site.shape(1)[:3]
    groups, rest = divmod(site.shape(0)[-1], site.shape(1)[3])
    if rest or groups < 1:
        raise site.fail("its weight does not fit its channels")
    attributes = _window(site, 3, extents) | {"group": groups}
    _finish(site, Kernel(0, 1, 2, (4, 3, 0, 1, 2)), attributes)


@dataclass(frozen=True, slots=True)
class _Inverse:
    """An inverted convolution: where its operands are, its window, and the shape that it has to give."""

    kernel: Kernel
    extents: Sequence[int]
    strides: Sequence[int]
    shape: Sequence[int]
    same: bool

    def pads(self, site: Site, sizes: Sequence[int]) -> Attributes:
        """Return pads and what is missing behind: the output's size is given, and they follow from it."""
        begins: list[int] = []
        ends: list[int] = []
        extra: list[int] = []
        for size, wanted, extent, stride in zip(sizes, self.shape[1:-1], self.extents, self.strides, strict=True):
            total = (size - 1) * stride + extent - wanted
            cut = max(0, total) if self.same else 0
            begins.append(cut // 2)
            ends.append(max(0, total) - cut // 2)
            extra.append(max(0, -total))
        if any(more >= stride for more, stride in zip(extra, self.strides, strict=True)):
            raise site.fail("its output shape does not follow from its stride")
        return {"pads": (*begins, *ends), "output_padding": tuple(extra)}


def _transposed(site: Site, inverse: _Inverse) -> None:
    kernel = inverse.kernel
    if len(inverse.shape) != len(inverse.extents) + 2 or any(stride < 1 for stride in inverse.strides):
        raise site.fail("its output shape is not known")
    attributes = inverse.pads(site, site.shape(kernel.data)[1:-1])
    weight = read_weight(site, kernel)
    bias = read_bias(site, kernel, weight)
    attributes = {"kernel_shape": tuple(inverse.extents), "strides": tuple(inverse.strides), **attributes}
    site.finish(
        "ConvTranspose", (site.read(kernel.data, TensorForm.FIRST), weight, *bias), attributes, TensorForm.FIRST
    )


def _inverse(site: Site, order: tuple[int, ...], extents: Sequence[int]) -> _Inverse:
    """Return how a builtin operator inverts a convolution: the shape is an input."""
    same = site.operator.options.integer("Padding") == _SAME
    strides = axes_options(site, "Stride?", len(extents))
    return _Inverse(Kernel(2, 1, 3, order), extents, strides, site.ints(0) or site.output().shape, same)


def _transpose_conv(site: Site) -> None:
    _check_rank(site, 2, 1, 2)
    _transposed(site, _inverse(site, (3, 0, 1, 2), site.shape(1)[1:3]))


def _conv_3d_transpose(site: Site) -> None:
    _check_rank(site, 2, 1, 3)
    _transposed(site, _inverse(site, (4, 3, 0, 1, 2), site.shape(1)[:3]))


def _transpose_conv_bias(site: Site) -> None:
    """Read MediaPipe's operator; its options are the padding (1: SAME) and the strides of W and H, of 32 bits each."""
    _check_rank(site, 0, 1, 2)
    options = site.operator.custom_options
    if len(options) < _OPTIONS.size:
        raise site.fail("its custom options cannot be read")
    padding, wide, high = _OPTIONS.unpack(bytes(options[: _OPTIONS.size]))
    kernel, extents = Kernel(0, 1, 2, (3, 0, 1, 2)), site.shape(1)[1:3]
    _transposed(site, _Inverse(kernel, extents, (high, wide), site.output().shape, padding == 1))


_OPTIONS = struct.Struct("<3i")
CUSTOM: Converters = {"Convolution2DTransposeBias": _transpose_conv_bias}
CONVERTERS: Converters = {
    "CONV_2D": _conv_2d,
    "CONV_3D": _conv_3d,
    "CONV_3D_TRANSPOSE": _conv_3d_transpose,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transpose_conv,
}
