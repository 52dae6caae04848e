"""What every generated head's comparison sees of planted harm: nothing stays as good as float's own answer."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence

import draws
import numpy as np
import pytest
from numpy.typing import NDArray

from dovetail.compare.decisions import metric_for, see_random
from dovetail.compare.decisions.boxes import expected_f1
from dovetail.compare.decisions.seen import SeenOutputs
from dovetail.ir.dtypes import AnyArray
from dovetail.outputs.decode.detections import Detections
from dovetail.outputs.decode.found import find_detections
from dovetail.outputs.layouts import DenseLayout, RowsLayout
from dovetail.outputs.view import HeadView, Kind, OutputRole
from dovetail.passes import normalize
from dovetail.testing.heads.sets import SETS

_FAMILIES = {f"{item.name}: {family.name}": family for item in SETS for family in item.families}
_SHARES = (0.01, 0.05, 0.3)
"""Noise: standard deviation as a share of the range of an output."""
_FLIPPED = 0.5
"""Noise that turns a yes into a no."""
_SLACK = 0.02
"""How much better more noise may look by luck: three samples are few."""
_TINY = 1e-6
_OTHER = 1000
"""Added to classes: boxes of two classes may lie at one place, so that the next class would fit some."""
_MARGINS = frozenset({Kind.CLASSIFICATION, Kind.TEXT})
"""A class that float is sure of stays the best one under much noise: no decision is lost."""
_DERIVED = frozenset({OutputRole.SCORE_SUM, OutputRole.COUNT})

_OF_PLACES = frozenset(
    {OutputRole.BOXES, OutputRole.SCORES, OutputRole.OBJECTNESS, OutputRole.CENTRENESS, OutputRole.COMBINED}
)
"""Of a dense detector these count at places where something is found: a grid may have none."""


def noisy(golden: Mapping[str, AnyArray], share: float, only: Sequence[str] | None = None) -> dict[str, AnyArray]:
    """Return outputs with noise in those of real numbers, the same directions whatever the share."""
    rng = np.random.default_rng(7)
    found: dict[str, AnyArray] = {}
    for name, values in golden.items():
        noise = rng.standard_normal(values.shape)
        if values.dtype.kind == "b" and (only is None or name in only):
            found[name] = values ^ (np.abs(share * noise) > _FLIPPED)
            continue
        known = values[np.isfinite(values)] if values.dtype.kind == "f" else values[:0]
        hit = known.size and (only is None or name in only)
        reach = float(known.max() - known.min()) if hit else 0.0
        found[name] = (values + share * reach * noise).astype(values.dtype) if hit else values
    return found


_DRAWN = 24
"""Families of a run; every family takes a quarter of an hour."""
_ALIKE = frozenset(
    {
        *("made with: CenterNet", "made with: DB", "first: CenterFace", "first: class ids", "first: depth"),
        *("first: EAST", "second: RT-DETR, Paddle", "second: FairMOT"),
    }
)
"""Heads whose random weights decide alike everywhere, or nothing: noise of a third of their range changes nothing."""


@pytest.fixture(scope="module", params=range(_DRAWN))
def seen(request: pytest.FixtureRequest) -> SeenOutputs:
    """Return what is recognised of a head of a family that is drawn anew each run, and its outputs on random inputs."""
    families = sorted(_FAMILIES.keys() - _ALIKE)
    name = families[draws.seed_of(f"harm {request.param}") % len(families)]
    sys.stdout.write(f"{name}\n")
    return see_random(normalize(_FAMILIES[name].draw(np.random.default_rng(0)).graph), 0, threads=1)


@pytest.mark.slow
def test_noise_loses_the_more_the_louder_it_is(seen: SeenOutputs) -> None:
    metric = metric_for(seen.view, seen.golden)
    own = metric.part_scores(seen.golden, seen.golden)
    assert own.min() >= 0
    assert own.max() <= 1
    if len(metric.parts) > 1:
        assert metric.score(seen.golden, seen.golden) == 1.0
    losses = [own - metric.part_scores(noisy(seen.golden, share), seen.golden) for share in _SHARES]
    for loss in losses:
        # What float expects of a class by its own probabilities is the most that any answer can have.
        assert loss.min() >= -_TINY
    means = [loss.mean(axis=1) for loss in losses]
    for quiet, loud in itertools.pairwise(means):
        assert (loud >= quiet - _SLACK).all()
    for head in seen.view.heads:
        found = [loss for part, loss in zip(metric.parts, means[-1], strict=True) if part.outputs == tuple(head.roles)]
        if not may_stay(head, seen):
            assert max(found) > _TINY, head.kind


@pytest.mark.slow
def test_noise_in_one_output_alone_is_seen(seen: SeenOutputs) -> None:
    metric = metric_for(seen.view, seen.golden)
    own = metric.part_scores(seen.golden, seen.golden)
    for head in seen.view.heads:
        dense = isinstance(head.layout, DenseLayout)
        for name, role in head.roles.items():
            values = seen.golden[name]
            if (
                may_stay(head, seen)
                or (dense and role in _OF_PLACES)
                or role in _DERIVED
                or values.dtype.kind not in "fb"
                or (values.dtype.kind == "f" and np.ptp(values) == 0)
            ):
                continue
            harmed = metric.part_scores(noisy(seen.golden, _SHARES[-1], [name]), seen.golden)
            assert float((own - harmed).max()) > _TINY, name


def may_stay(head: HeadView, seen: SeenOutputs) -> bool:
    """Tell whether noise may leave a decision as it is: float is sure, or has nothing to decide."""
    if head.kind in _MARGINS:
        return True
    if isinstance(head.layout, RowsLayout) and head.layout.suppressed and len(head.roles) > 2:
        return True
    if isinstance(head.layout, DenseLayout | RowsLayout):
        return not any(len(found.scores) for found in find_detections(head.layout, seen.golden))
    return False


@pytest.mark.slow
def test_boxes_that_move_and_classes_that_change_are_lost(seen: SeenOutputs) -> None:
    layouts = [head.layout for head in seen.view.heads if isinstance(head.layout, DenseLayout | RowsLayout)]
    for layout in layouts:
        for found in find_detections(layout, seen.golden):
            real = Detections(found.boxes[:50], found.scores[:50], found.classes[:50])
            if not real.scores.size or not sized(real):
                continue
            own = expected_f1(real, real, layout.threshold)
            half, every = (expected_f1(real, moved(real, step), layout.threshold) for step in (2, 1))
            assert own > half > every == 0.0 or (len(real.scores) == 1 and own > half == every)
            other = Detections(real.boxes, real.scores, real.classes + _OTHER)
            assert expected_f1(real, other, layout.threshold) == 0.0


def sized(found: Detections) -> bool:
    sides: NDArray[np.float64] = found.boxes[:, 2:] - found.boxes[:, :2]
    return bool(np.isfinite(sides).all() and (sides > 0).all())


def moved(found: Detections, step: int) -> Detections:
    """Return every so many of the boxes, from the first on, far beside all of them."""
    boxes = found.boxes.copy()
    boxes[::step] += 2 * (boxes.max() - boxes.min()) + 1.0
    return Detections(boxes, found.scores, found.classes)
