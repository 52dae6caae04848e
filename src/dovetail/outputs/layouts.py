"""How to read the outputs of a head: shapes and meanings, no weights.

Shapes are those of one sample; arrays of samples have `[N, ...]` in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

THRESHOLD = 0.25
"""The score from which public detectors show a box by default (Ultralytics, FastestDet, RKNN's model zoo)."""


class Activation(Enum):
    """What has been applied to scores already."""

    NONE = "none"
    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"


class Form(Enum):
    """The order of an output's axes: P places, C channels, rows H and columns W of a grid, A anchors."""

    PC = "[P, C]"
    CP = "[C, P]"
    CHW = "[A*C, H, W]"
    HWC = "[H, W, A*C]"
    ACHW = "[A, C, H, W]"
    AHWC = "[A, H, W, C]"
    HWAC = "[H, W, A, C]"


class Coding(Enum):
    """What the four numbers of a box mean."""

    CORNERS = "x1, y1, x2, y2"
    CORNERS_YX = "y1, x1, y2, x2"
    CENTRE = "centre x, y, width, height"
    GRID_EXP = "offset from the cell and logarithm of the size, in strides"
    GRID_SIGMOID = "tanh offset from the cell in cells, sigmoid of the size in images"
    DISTANCES = "distances to the four sides, in strides"
    DISTRIBUTION = "distributions of the distances to the four sides, in strides"
    ANCHORS_V3 = "sigmoid offset, exponential share of an anchor"
    ANCHORS_V5 = "sigmoid offset doubled, squared share of an anchor"
    PIXELS = "offset from the cell's centre and size, in pixels"
    PRIORS = "offset and logarithm of the size against prior boxes, variances 0.1 and 0.2"
    CENTRE_SIZE = "offset from the cell and size in cells, in outputs of their own"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Level:
    """A grid of places: every cell of `rows` x `cols` holds `anchors` places; strides are in pixels of the input."""

    stride_y: float
    stride_x: float
    rows: int
    cols: int
    anchors: int = 1

    @property
    def places(self) -> int:
        """Return the number of places."""
        return self.rows * self.cols * self.anchors


@dataclass(frozen=True, slots=True)
class Plane:
    """An output, or a part of it, that holds some channels for every place of some levels."""

    output: str
    form: Form
    levels: tuple[Level, ...]
    start: int
    """First channel of a place."""
    stop: int
    """One past the last channel of a place."""
    channels: int
    """All channels of a place in this output."""
    anchors_first: bool = False
    """Places of a level go anchor by anchor, not cell by cell."""

    @property
    def width(self) -> int:
        """Return the number of channels that are read."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class LayoutPart:
    """What is said of every place: one plane for all levels, or one for each."""

    planes: tuple[Plane, ...]
    activation: Activation = Activation.NONE

    @property
    def width(self) -> int:
        """Return the number of channels of a place."""
        return self.planes[0].width


@dataclass(frozen=True, slots=True)
class DenseLayout:
    """A detector that says something of every place of its grids."""

    image: tuple[int, int]
    """Rows and columns of the input."""
    levels: tuple[Level, ...]
    scores: LayoutPart
    boxes: LayoutPart | None
    coding: Coding
    unit: bool = False
    """Decoded boxes are shares of the image, not pixels."""
    objectness: LayoutPart | None = None
    geometric: bool = False
    """Score and objectness join as a geometric mean, not as a product."""
    background: int | None = None
    """The class that says that nothing is there."""
    sizes: LayoutPart | None = None
    """Width and height of a box, or the distances to its sides, in cells."""
    offsets: LayoutPart | None = None
    """Where in its cell the centre of a box lies."""
    landmarks: LayoutPart | None = None
    centre: float = 0.5
    """Where the reference point of a cell lies in it."""
    anchors: tuple[tuple[tuple[float, float], ...], ...] = ()
    """Width and height in pixels of every anchor of every level, where boxes refer to them."""
    anchors_assumed: bool = False
    """The anchors are usual ones, as the model does not hold its own: sizes of boxes are a guess."""
    threshold: float = THRESHOLD
    """The score from which a place is a detection: what the family's published programs take by default."""

    @property
    def classes(self) -> int:
        """Return the number of classes, the background excepted."""
        return self.scores.width - (self.background is not None)


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of an output `[K, C]`, or `[K]` where `stop` is 0."""

    output: str
    start: int = 0
    stop: int = 0
    transposed: bool = False
    """The output is `[C, K]`."""


@dataclass(frozen=True, slots=True)
class RowsLayout:
    """A detector that gives a list of boxes: queries, or what is left after suppression."""

    image: tuple[int, int]
    boxes: Columns
    scores: Columns
    coding: Coding
    unit: bool
    classes: Columns | None = None
    """Where the class of a box is; None where `scores` has a column for each."""
    count: str = ""
    """The output that tells how many rows count; empty where padding has no score."""
    activation: Activation = Activation.SOFTMAX
    """What has been applied to the scores."""
    background: int | None = None
    suppressed: bool = False
    """Each object has one box already."""
    threshold: float = THRESHOLD
    """The score from which a row is a detection."""


@dataclass(frozen=True, slots=True)
class ScoresLayout:
    """Scores of classes; `axis` counts without the batch."""

    output: str
    axis: int
    classes: int
    activation: Activation = Activation.NONE
    independent: bool = False
    """Classes do not exclude each other."""
    labels: bool = False
    """The output holds the chosen class itself, not scores."""


@dataclass(frozen=True, slots=True)
class MaskLayout:
    """A class for every pixel; `class_axis` counts without the batch, None where ids or one score are given."""

    output: str
    class_axis: int | None
    classes: int
    activation: Activation = Activation.NONE
    labels: bool = False
    threshold: float = 0.5
    """Where one score is given: what counts as foreground."""


@dataclass(frozen=True, slots=True)
class HeatmapsLayout:
    """A map for every keypoint; the rest of the axes are rows and columns."""

    output: str
    point_axis: int
    points: int


@dataclass(frozen=True, slots=True)
class PointsLayout:
    """Coordinates of keypoints: `width` numbers each, of which the first two are `order`."""

    output: str
    points: int
    width: int
    order: str = "xy"
    score: int | None = None
    """The number of a point that says how sure it is."""


@dataclass(frozen=True, slots=True)
class BinsLayout:
    """Coordinates of keypoints as distributions over bins `[points, bins]`, one output an axis."""

    x: str
    y: str
    points: int


@dataclass(frozen=True, slots=True)
class SequenceLayout:
    """Scores of symbols at every time step; axes count without the batch."""

    output: str
    time_axis: int
    class_axis: int
    classes: int
    blank: int | None = None
    """The symbol that stands for none, where repeated symbols are merged; None where every step is a symbol."""
    labels: bool = False


@dataclass(frozen=True, slots=True)
class VectorLayout:
    """Numbers without an order: an embedding, values, or what is not recognised beside something that is."""

    output: str
    width: int


@dataclass(frozen=True, slots=True)
class SignalLayout:
    """Samples, spectra or the mask of spectra; scored as a whole, or per index of `channel_axis`."""

    output: str
    mask: bool = False
    channel_axis: int | None = None


Layout = (
    DenseLayout
    | RowsLayout
    | ScoresLayout
    | MaskLayout
    | HeatmapsLayout
    | PointsLayout
    | BinsLayout
    | SequenceLayout
    | VectorLayout
    | SignalLayout
)
