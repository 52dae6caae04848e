"""Non-maximum suppression, and the custom operator that ends TFLite's detectors."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.importers.tflite.operators.table import Converters
from dovetail.importers.tflite.site import Site
from dovetail.ir import DType, TensorType
from dovetail.ir.codes import ONNX_CODES


@dataclass(frozen=True, slots=True)
class _Settings:
    """The custom options of TFLite_Detection_PostProcess."""

    detections: int
    per_class: int
    regular: bool
    classes: int
    score: float
    iou: float
    scales: tuple[float, float, float, float]


class _Post:
    """Write the operator's steps as nodes over `N` anchors."""

    def __init__(self, site: Site, options: _Settings) -> None:
        self.site = site
        self.options = options
        self.anchors = site.shape(0)[1]

    def real(self, op: str, inputs: tuple[str, ...], shape: tuple[int | None, ...], **attributes: object) -> str:
        return self.site.emit(op, inputs, TensorType(DType.F32, shape), attributes)

    def whole(self, op: str, inputs: tuple[str, ...], shape: tuple[int | None, ...], **attributes: object) -> str:
        return self.site.emit(op, inputs, TensorType(DType.I64, shape), attributes)

    def column(self, x: str, place: int, like: tuple[int, ...]) -> str:
        index = self.site.number((place,), "column")
        return self.real("Gather", (x, index), (*like[:-1], 1), axis=len(like) - 1)

    def boxes(self) -> str:
        """Return corners `[1, N, 4]` (ymin, xmin, ymax, xmax) of the encoded centres and sizes."""
        site, shape = self.site, (1, self.anchors, 1)
        codes, anchors = site.read_real(0), site.read_real(2)
        columns = [self.column(codes, place, (1, self.anchors, 4)) for place in range(4)]
        prior = [self.column(anchors, place, (self.anchors, 4)) for place in range(4)]
        corners: list[list[str]] = [[], []]
        for place in range(2):
            moved = self.real("Div", (columns[place], site.real(self.options.scales[place], "scale")), shape)
            centre = self.real("Add", (self.real("Mul", (moved, prior[place + 2]), shape), prior[place]), shape)
            grown = self.real("Div", (columns[place + 2], site.real(self.options.scales[place + 2], "scale")), shape)
            size = self.real("Mul", (self.real("Exp", (grown,), shape), prior[place + 2]), shape)
            half = self.real("Mul", (size, site.real(0.5, "half")), shape)
            corners[0].append(self.real("Sub", (centre, half), shape))
            corners[1].append(self.real("Add", (centre, half), shape))
        return self.real("Concat", tuple(corners[0] + corners[1]), (1, self.anchors, 4), axis=2)

    def scores(self) -> str:
        """Return scores `[1, N, C]` without the background."""
        site = self.site
        classes = site.shape(1)[2]
        offset = classes - self.options.classes
        scores = site.read_real(1)
        if offset == 0:
            return scores
        bounds = site.number((offset,), "start"), site.number((classes,), "stop"), site.number((2,), "axes")
        return self.real("Slice", (scores, *bounds), (1, self.anchors, self.options.classes))

    def choose(self, boxes: str, scores: str) -> tuple[str, str, str]:
        """Return the anchors, classes and scores of what is kept, best first, at most `detections` of them."""
        site, options = self.site, self.options
        turned_shape = (1, options.classes if options.regular else 1, self.anchors)
        if options.regular:
            turned = self.real("Transpose", (scores,), turned_shape, perm=(0, 2, 1))
        else:
            best = self.real("ReduceMax", (scores, site.number((2,), "axes")), (1, self.anchors), keepdims=0)
            turned = self.real("Unsqueeze", (best, site.number((1,), "axes")), turned_shape)
        limit = options.per_class if options.regular else options.detections
        given = (site.number((limit,), "limit"), site.real((options.iou,), "iou"), site.real((options.score,), "score"))
        picked = self.whole("NonMaxSuppression", (boxes, turned, *given), (None, 3))
        flat = self.real("Reshape", (turned, site.number((-1,), "flat")), (turned_shape[1] * self.anchors,))
        anchor, kind = self._part(picked, 2), self._part(picked, 1)
        row = self.whole("Mul", (kind, site.number(self.anchors, "anchors")), (None,))
        candidates = self.real("Gather", (flat, self.whole("Add", (row, anchor), (None,))), (None,), axis=0)
        order = self._best(candidates)
        anchor = self.whole("Gather", (anchor, order), (None,), axis=0)
        candidates = self.real("Gather", (candidates, order), (None,), axis=0)
        if options.regular:
            return anchor, self.whole("Gather", (kind, order), (None,), axis=0), candidates
        top = self.whole("ArgMax", (scores,), (1, self.anchors), axis=2, keepdims=0)
        top = self.whole("Reshape", (top, site.number((-1,), "flat")), (self.anchors,))
        return anchor, self.whole("Gather", (top, anchor), (None,), axis=0), candidates

    def _part(self, picked: str, place: int) -> str:
        column = self.site.number(place, "column")
        return self.whole("Gather", (picked, column), (None,), axis=1)

    def _best(self, candidates: str) -> str:
        """Return the order of the best scores."""
        site = self.site
        count = self.whole("Shape", (candidates,), (1,))
        limit = self.whole("Min", (count, site.number((self.options.detections,), "limit")), (1,))
        values, order = site.scope.fresh(f"{site.stem}/values"), site.scope.fresh(f"{site.stem}/order")
        site.scope.types[values] = TensorType(DType.F32, (None,))
        site.scope.types[order] = TensorType(DType.I64, (None,))
        site.scope.add("TopK", (candidates, limit), (values, order), f"{site.stem}/topk", {"axis": 0})
        return order

    def fill(self, output: int, values: str, width: tuple[int, ...] = ()) -> None:
        """Make an output of `detections` rows, with zeros behind what was found."""
        site, rows = self.site, self.options.detections
        count = self.whole("Shape", (values,), (1 + len(width),))
        first = self.whole("Slice", (count, *(site.number((place,), "place") for place in (0, 1, 0))), (1,))
        missing = self.whole("Sub", (site.number((rows,), "rows"), first), (1,))
        zeros = site.number((0,) * (1 + len(width)), "begins")
        ends = (missing, site.number((0,) * len(width), "ends")) if width else (missing,)
        pads = self.whole("Concat", (zeros, *ends), (2 + 2 * len(width),), axis=0)
        padded = self.real("Pad", (values, pads), (rows, *width))
        site.conclude(output, "Reshape", (padded, site.number((1, rows, *width), "shape")))


def _read_settings(site: Site) -> _Settings:
    """Read the operator's options, a map in FlexBuffer form."""
    from flatbuffers import flexbuffers

    try:
        options = flexbuffers.GetRoot(bytearray(site.operator.custom_options)).AsMap

        def number(key: str, default: float) -> float:
            value = options[key] if key in {item.AsKey for item in options.Keys} else None
            return default if value is None else float(value.AsFloat if value.IsFloat else value.AsInt)

        return _Settings(
            int(number("max_detections", 0)),
            int(number("detections_per_class", 100)),
            bool(number("use_regular_nms", 0)),
            int(number("num_classes", 0)),
            number("nms_score_threshold", 0.0),
            number("nms_iou_threshold", 0.0),
            (number("y_scale", 0), number("x_scale", 0), number("h_scale", 0), number("w_scale", 0)),
        )
    except Exception as error:  # the package raises whatever its own reading of damaged bytes meets
        raise site.fail("its custom options cannot be read") from error


def _post_process(site: Site) -> None:
    """Decode boxes against anchors, suppress, and give boxes, classes, scores and their count."""
    options = _read_settings(site)
    offset = site.shape(1)[-1] - options.classes
    if min(options.scales) <= 0 or not 0 < options.detections < 10_000 or offset not in (0, 1):
        raise site.fail("its custom options do not fit its inputs")
    post = _Post(site, options)
    boxes, scores = post.boxes(), post.scores()
    anchors, kinds, chosen = post.choose(boxes, scores)
    flat = post.real("Reshape", (boxes, site.number((-1, 4), "flat")), (post.anchors, 4))
    post.fill(0, post.real("Gather", (flat, anchors), (None, 4), axis=0), (4,))
    post.fill(1, post.real("Cast", (kinds,), (None,), to=ONNX_CODES[DType.F32]))
    post.fill(2, chosen)
    count = post.whole("Shape", (chosen,), (1,))
    site.conclude(3, "Cast", (count,), {"to": ONNX_CODES[DType.F32]})


def _non_max_suppression(site: Site) -> None:
    """Give the anchors that are kept, padded with zeros to the largest number, and their count."""
    if site.operator.kind.endswith("V5"):
        raise site.fail("soft suppression has no counterpart in ONNX")
    limit = site.known_ints(2, "largest number")[0]
    if not 0 < limit < 1_000_000:
        raise site.fail(f"its largest number is {limit}")
    rows = site.shape(0)[0]
    post_shape = TensorType(DType.F32, (1, rows, 4))
    boxes = site.emit("Unsqueeze", (site.read(0), site.number((0,), "axes")), post_shape)
    scores = site.emit(
        "Reshape", (site.read(1), site.number((1, 1, rows), "shape")), TensorType(DType.F32, (1, 1, rows))
    )
    thresholds = [
        site.emit("Reshape", (site.read(index), site.number((1,), "one")), TensorType(DType.F32, (1,)))
        for index in (3, 4)
    ]
    inputs = (boxes, scores, site.number((limit,), "limit"), *thresholds)
    picked = site.emit("NonMaxSuppression", inputs, TensorType(DType.I64, (None, 3)))
    wide = site.emit("Gather", (picked, site.number(2, "column")), TensorType(DType.I64, (None,)), {"axis": 1})
    count = site.emit("Shape", (wide,), TensorType(DType.I64, (1,)))
    missing = site.emit("Sub", (site.number((limit,), "rows"), count), TensorType(DType.I64, (1,)))
    zero = site.number((0,), "zero")
    pads = site.emit("Concat", (zero, missing), TensorType(DType.I64, (2,)), {"axis": 0})
    padded = site.emit("Pad", (wide, pads), TensorType(DType.I64, (limit,)))
    site.conclude(0, "Cast", (padded,), {"to": ONNX_CODES[DType.I32]})
    single = site.emit("Reshape", (count, site.number((), "scalar")), TensorType(DType.I64, ()))
    site.conclude(1, "Cast", (single,), {"to": ONNX_CODES[DType.I32]})


CONVERTERS: Converters = {"NON_MAX_SUPPRESSION_V4": _non_max_suppression}
CUSTOM: Converters = {"TFLite_Detection_PostProcess": _post_process}
"""Custom operators by their own names."""
