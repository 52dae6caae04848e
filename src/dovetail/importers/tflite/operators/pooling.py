"""Windows, images and their resizing."""

from __future__ import annotations

from dovetail.importers.tflite.layout import TensorForm, permuted
from dovetail.importers.tflite.operators.convolution import axes_options, same_pads
from dovetail.importers.tflite.operators.table import Converter, Converters
from dovetail.importers.tflite.site import Attributes, Site
from dovetail.ir import TensorType


def _image(site: Site, index: int = 0) -> None:
    if site.rank(index) != 4 or 0 in site.shape(index):
        raise site.fail(f"input {index} of shape {list(site.shape(index))} is no image")


def _window(site: Site) -> dict[str, object]:
    _image(site)
    options = site.operator.options
    extents = options.integer("FilterHeight"), options.integer("FilterWidth")
    strides = axes_options(site, "Stride?", 2)
    if min(*extents, *strides) < 1:
        raise site.fail(f"its window is {list(extents)} and its strides are {list(strides)}")
    pads = same_pads(site, site.shape(0)[1:3], extents, strides)
    return {"kernel_shape": extents, "strides": strides, "pads": pads}


def _pool(op: str) -> Converter:
    def convert(site: Site) -> None:
        attributes = _window(site)
        site.finish(op, (site.read(0, TensorForm.FIRST),), attributes, TensorForm.FIRST)

    return convert


def _l2_pool(site: Site) -> None:
    attributes = _window(site)
    x = site.read_real(0, TensorForm.FIRST)
    squares = site.emit("Mul", (x, x), site.float_like(x))
    mean = site.emit("AveragePool", (squares,), site.result_type(0, TensorForm.FIRST, real=True), attributes)
    site.finish_real("Sqrt", (mean,), None, TensorForm.FIRST)


def _resize(mode: str) -> Converter:
    def convert(site: Site) -> None:
        _image(site)
        sizes = site.known_ints(1, "sizes")
        if len(sizes) != 2 or min(sizes) < 1:
            raise site.fail(f"its sizes are {list(sizes)}")
        batch, _, _, channels = site.shape(0)
        target = site.number((batch, channels, *sizes), "sizes")
        site.finish(
            "Resize", (site.read(0, TensorForm.FIRST), "", "", target), _resize_attributes(site, mode), TensorForm.FIRST
        )

    return convert


def _resize_attributes(site: Site, mode: str) -> Attributes:
    options = site.operator.options
    aligned, half = options.flag("AlignCorners"), options.flag("HalfPixelCenters")
    transform = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
    attributes: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        attributes["nearest_mode"] = "round_prefer_ceil" if aligned or half else "floor"
    return attributes


def _blocks(op: str) -> Converter:
    def convert(site: Site) -> None:
        _image(site)
        size = site.operator.options.integer("BlockSize")
        if size < 1:
            raise site.fail(f"its block size is {size}")
        site.finish(op, (site.read(0, TensorForm.FIRST),), {"blocksize": size}, TensorForm.FIRST)

    return convert


def _lrn(site: Site) -> None:
    _image(site)
    options = site.operator.options
    size = 2 * options.integer("Radius") + 1
    attributes = {
        "size": size,
        "alpha": options.number("Alpha") * size,
        "beta": options.number("Beta"),
        "bias": options.number("Bias"),
    }
    site.finish_real("LRN", (site.read_real(0, TensorForm.FIRST),), attributes, TensorForm.FIRST)


def _space_to_batch(site: Site) -> None:
    """Pad, then move blocks of pixels into the batch."""
    block, pads = site.known_ints(1, "block sizes"), site.known_ints(2, "pads")
    shape, count = site.shape(0), len(block)
    if len(pads) != 2 * count or len(shape) < count + 1 or min((*block, 1)) < 1:
        raise site.fail("its blocks do not fit its data")
    rest = len(shape) - 1 - count
    begins = (0, *pads[0::2], *(0,) * rest)
    ends = (0, *pads[1::2], *(0,) * rest)
    padded = tuple(size + begin + end for size, begin, end in zip(shape, begins, ends, strict=True))
    if any(size % part for size, part in zip(padded[1:], block, strict=False)):
        raise site.fail("its blocks do not divide its data")
    kind = site.scope.types[site.read(0)]
    name = site.read(0)
    if any(pads):
        name = site.emit(
            "Pad", (name, site.number((*begins, *ends), "pads")), TensorType(kind.dtype, padded, kind.quant)
        )
    pieces: list[int] = [padded[0]]
    for size, part in zip(padded[1:], block, strict=False):
        pieces += [size // part, part]
    pieces += padded[1 + count :]
    inner = tuple(2 * axis + 2 for axis in range(count))
    outer = tuple(2 * axis + 1 for axis in range(count))
    order = (*inner, 0, *outer, *range(2 * count + 1, len(pieces)))
    _regroup(site, name, tuple(pieces), order)


def _batch_to_space(site: Site) -> None:
    """Move blocks of the batch to pixels, then crop."""
    block, crops = site.known_ints(1, "block sizes"), site.known_ints(2, "crops")
    shape, count = site.shape(0), len(block)
    total = 1
    for part in block:
        total *= part
    if len(crops) != 2 * count or len(shape) < count + 1 or total < 1 or shape[0] % total:
        raise site.fail("its blocks do not fit its data")
    pieces = (*block, shape[0] // total, *shape[1:])
    order: list[int] = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += range(2 * count + 1, len(pieces))
    if not any(crops):
        _regroup(site, site.read(0), pieces, tuple(order))
        return
    whole = (pieces[count], *(shape[1 + axis] * block[axis] for axis in range(count)), *shape[1 + count :])
    kind = site.scope.types[site.read(0)]
    cut = site.emit("Reshape", (site.read(0), site.number(pieces, "shape")), TensorType(kind.dtype, pieces, kind.quant))
    turned = TensorType(kind.dtype, permuted(pieces, order), kind.quant)
    turned_name = site.emit("Transpose", (cut,), turned, {"perm": tuple(order)})
    joined = site.emit("Reshape", (turned_name, site.number(whole, "shape")), TensorType(kind.dtype, whole, kind.quant))
    starts = site.number(crops[0::2], "starts")
    ends = site.number(tuple(whole[1 + axis] - crops[2 * axis + 1] for axis in range(count)), "ends")
    axes = site.number(tuple(range(1, count + 1)), "axes")
    site.finish("Slice", (joined, starts, ends, axes))


def _regroup(site: Site, name: str, pieces: tuple[int, ...], order: tuple[int, ...]) -> None:
    kind = site.scope.types[name]
    cut = site.emit("Reshape", (name, site.number(pieces, "shape")), TensorType(kind.dtype, pieces, kind.quant))
    turned = TensorType(kind.dtype, permuted(pieces, order), kind.quant)
    name = site.emit("Transpose", (cut,), turned, {"perm": order})
    site.finish("Reshape", (name, site.number(site.output().shape, "shape")))


CONVERTERS: Converters = {
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "DEPTH_TO_SPACE": _blocks("DepthToSpace"),
    "L2_POOL_2D": _l2_pool,
    "LOCAL_RESPONSE_NORMALIZATION": _lrn,
    "MAX_POOL_2D": _pool("MaxPool"),
    "RESIZE_BILINEAR": _resize("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest"),
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPACE_TO_DEPTH": _blocks("SpaceToDepth"),
}
