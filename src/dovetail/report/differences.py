"""The samples on which a candidate differs most from float: in words, and as pictures where the model takes some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.compare import LayerRuns
from dovetail.compare.decisions import Decisions, decision_losses
from dovetail.compare.decisions.golden import Floats
from dovetail.compare.task import Arrays
from dovetail.data.preprocess import Preprocess
from dovetail.data.sample import Sample
from dovetail.data.tensor import to_image
from dovetail.outputs.ends import Ends
from dovetail.outputs.view import OutputsView
from dovetail.report.decided import decided_text
from dovetail.report.figures import number_text
from dovetail.report.page import Picture, Pictures
from dovetail.report.pictures import LEGEND, draw_decisions, picture_png
from dovetail.report.record import DifferingSample

MOST_SHOWN = 5
"""Samples that are shown: a page of their pictures stays below 3 MB."""


@dataclass(frozen=True, slots=True)
class DecidedSample:
    """A sample, what float and a candidate make of it, and what is lost."""

    sample: Sample
    golden: Arrays
    """Float's outputs `[1, ...]`."""
    measured: Arrays
    loss: float


def differing_samples(metric: Decisions, runs: LayerRuns) -> list[DecidedSample]:
    """Return the samples that lose most of those that a model and its bundle ran on."""
    # Tensors of layers may be there too, and not all of those have a sample a row.
    names = [name for part in metric.parts for name in part.outputs]
    golden, measured = ({name: side[name] for name in names} for side in (runs.golden, runs.measured))
    losses = decision_losses(metric, [(golden, measured)])
    worst = losses.most(MOST_SHOWN)
    golden, measured = ({name: values[worst] for name, values in side.items()} for side in (golden, measured))
    return decided_samples([runs.samples[index] for index in worst], golden, measured, losses.by_sample[worst])


def decided_samples(samples: Sequence[Sample], golden: Arrays, measured: Arrays, losses: Floats) -> list[DecidedSample]:
    """Return samples with what float and a candidate make of each, given outputs `[N, ...]` and losses `[N]`."""
    sides = (
        [{name: values[row : row + 1] for name, values in side.items()} for row in range(len(samples))]
        for side in (golden, measured)
    )
    return [
        DecidedSample(sample, real, found, float(loss))
        for sample, real, found, loss in zip(samples, *sides, losses, strict=True)
    ]


def differing_rows(view: OutputsView, samples: Sequence[DecidedSample]) -> tuple[DifferingSample, ...]:
    """Return what is decided about every sample in words."""
    return tuple(
        DifferingSample(item.sample.id, item.loss, decided_text(view, item.golden), decided_text(view, item.measured))
        for item in samples
    )


def differing_pictures(
    view: OutputsView, samples: Sequence[DecidedSample], preprocess: Preprocess | None
) -> tuple[Picture, ...]:
    """Return a picture of every sample; none where the model takes no picture, or decides nothing to be drawn.

    `preprocess` is how pictures became inputs; None is not known.
    """
    found = (_picture(view, item, preprocess) for item in samples)
    return tuple(picture for picture in found if picture is not None)


def pictures_block(pictures: tuple[Picture, ...]) -> Pictures:
    """Return pictures as a part of a page."""
    return Pictures("What float and the candidate see", pictures, LEGEND)


def _picture(view: OutputsView, item: DecidedSample, preprocess: Preprocess | None) -> Picture | None:
    inputs = item.sample.inputs
    image = Ends(None, (), {name: array.shape for name, array in inputs.items()}).image
    if image is None:
        return None
    pixels = to_image(inputs[image.name][0], preprocess, channels_last=image.channels_last)
    drawn = draw_decisions(view, pixels, (("float", item.golden), ("candidate", item.measured)))
    if drawn is None:
        return None
    return Picture(f"{item.sample.id}: loss {number_text(item.loss, 3)}", picture_png(drawn))
