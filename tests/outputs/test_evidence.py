"""What speaks for a reading and what casts doubt on it, on outputs worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.outputs import SURE, Kind, OutputRole
from dovetail.outputs.ends import Ends, bare_ends
from dovetail.outputs.evidence import DECISIVE, SLIGHT, STRONG, Case, Hypothesis, choose
from dovetail.outputs.families import flat, segmentation, sequences
from dovetail.outputs.families.coding import decoded_coding
from dovetail.outputs.layouts import Activation, Coding, DenseLayout, Form, LayoutPart, Level, Plane
from dovetail.outputs.recognise import recognise_arrays


def reading(kind: Kind, name: str, *weights: float) -> Hypothesis:
    case = Case([(weight, "") for weight in weights])
    return Hypothesis.of(case, kind, "", {name: OutputRole.SCORES})


@pytest.mark.parametrize(
    ("weights", "sure"),
    [((DECISIVE,), False), ((STRONG, STRONG), False), ((DECISIVE, SLIGHT), True), ((STRONG, STRONG, SLIGHT), True)],
)
def test_one_finding_alone_makes_nothing_sure(weights: tuple[float, ...], sure: bool) -> None:
    (head,) = choose([reading(Kind.CLASSIFICATION, "a", *weights)], ["a"])
    assert (head.confidence >= SURE) is sure


def test_outputs_that_nothing_explains_cast_doubt_on_the_others() -> None:
    found = [reading(Kind.SEGMENTATION, "a", DECISIVE, SLIGHT)]
    alone, crowd = choose(found, ["a"])[0], choose(found, ["a", "b", "c", "d"])[0]
    assert alone.confidence >= SURE > crowd.confidence
    explained = [*found, *(reading(Kind.SEGMENTATION, name, DECISIVE, SLIGHT) for name in "bcd")]
    assert choose(explained, ["a", "b", "c", "d"])[0].confidence == alone.confidence


def grid(rows: int, cols: int, stride: float) -> DenseLayout:
    level = Level(stride, stride, rows, cols)
    part = LayoutPart((Plane("boxes", Form.PC, (level,), 0, 4, 4),), Activation.NONE)
    scores = LayoutPart((Plane("scores", Form.PC, (level,), 0, 1, 1),), Activation.SIGMOID)
    return DenseLayout((int(rows * stride), int(cols * stride)), (level,), scores, part, Coding.UNKNOWN)


@pytest.mark.parametrize(("cells", "near"), [(2, False), (16, True)])
def test_boxes_near_a_few_cells_are_near_by_chance(cells: int, near: bool) -> None:
    """Boxes anywhere in the picture are near every cell of a coarse grid; boxes at their cells are near their own."""
    layout = grid(cells, cells, 32)
    rng = np.random.default_rng(0)
    y, x = np.meshgrid(np.arange(cells) + 0.5, np.arange(cells) + 0.5, indexing="ij")
    middles = np.stack([x, y], -1).reshape(1, -1, 2) * 32 if near else rng.uniform(0, 64, (1, cells * cells, 2))
    boxes = np.concatenate([middles, rng.uniform(5, 9, middles.shape)], axis=-1)
    found = decoded_coding(layout, {"boxes": boxes, "scores": np.full((1, cells * cells, 1), 0.5)})
    assert (found is not None) is near
    assert found is None or found.coding is Coding.CENTRE


def test_a_map_over_the_picture_is_no_text() -> None:
    rng = np.random.default_rng(0)
    for size in ((64, 208), (128, 416)):
        outputs = {"disp": rng.uniform(0, 1, (1, 1, *size)).astype(np.float32)}
        against = "against: both axes are those of a grid over the picture"
        assert all(against in item.reasons for item in sequences.hypotheses(bare_ends(outputs, (128, 416))))
        (head,) = recognise_arrays(outputs, (128, 416)).heads
        assert head.kind is not Kind.TEXT


def test_shares_of_classes_in_one_list() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(21), (2, 200)).reshape(2, -1)
    outputs = {"loc": rng.normal(size=(2, 800)), "conf": shares, "other": rng.uniform(0, 1, (2, 4200))}
    ends = bare_ends(outputs, (300, 300))
    assert [flat.classes_of_list(end) for end in ends.outputs] == [0, 21, 0]
    (found,) = flat.hypotheses(ends)
    assert (found.kind, dict(found.roles)) == (
        Kind.DETECTION,
        {"loc": OutputRole.BOXES, "conf": OutputRole.SCORES},
    )


def test_two_values_a_pixel_are_not_surely_classes() -> None:
    """Colours, directions and flows are shaped as the scores of a few classes are."""
    values = np.random.default_rng(0).normal(size=(2, 2, 64, 64))
    kinds = {item.kind: item.weight for item in segmentation.hypotheses(bare_ends({"out": values}, (64, 64)))}
    assert kinds[Kind.SEGMENTATION] - kinds[Kind.REGRESSION] < STRONG
    assert not recognise_arrays({"out": values}, (64, 64)).sure


def test_directions_are_no_classes() -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 64, 64))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    (head,) = recognise_arrays({"out": values}, (64, 64)).heads
    assert head.kind is Kind.REGRESSION


def test_a_pair_of_pictures_is_a_picture() -> None:
    two = {"left": (1, 3, 64, 96), "right": (1, 3, 64, 96)}
    assert Ends(None, (), two).pictures == 2
    pair = Ends(None, (), two).image
    assert pair is not None
    assert pair.name == "left"
    masked = Ends(None, (), {"mask": (1, 1, 64, 96), "image": (1, 3, 64, 96)}).image
    assert masked is not None
    assert masked.name == "image"
    assert Ends(None, (), {"fine": (1, 3, 64, 96), "coarse": (1, 3, 32, 48)}).image is None
