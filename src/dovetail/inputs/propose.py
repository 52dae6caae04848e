"""Find out how pictures become a model's input.

What the model states is taken. Else usual variants are tried in float, and evidence is added in decibans: what the
recognised design is published with, whether biases and signals of the first layer balance, and whether the model sees
the same in a picture and in its mirror image, and not the same in different pictures. A model that sees noise is not
consistent; one that sees the same everywhere is not either; and being sure is no evidence, as a net whose input is too
large is sure of everything.

How pictures are fitted is told by no more than a fair finding of that kind, however many pictures there are: what is
seen in a stretched picture is larger, so that a net may see more in it than in the letterboxed one that it is made for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dovetail.backend.protocols import Executable
from dovetail.data.conform import conform
from dovetail.data.image import load_image, picture_size, place
from dovetail.data.preprocess import Channels, Preprocess
from dovetail.data.sample import InputSpec
from dovetail.data.specs import specs_of
from dovetail.data.tensor import to_tensor
from dovetail.errors import DataError
from dovetail.inputs.balance import balance_db, beginning, first_layer, order_of
from dovetail.inputs.sameness import Decided, Warp, decided, sameness, warped
from dovetail.inputs.stated import Stated
from dovetail.inputs.usual import (
    Convention,
    Normal,
    PictureFit,
    Variant,
    convention_of,
    fits_for,
    normals_for,
    steps_of,
    variant,
)
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.outputs.ends import ImageInput, image_of, images_of, open_image_of
from dovetail.outputs.evidence import FAIR, SLIGHT, STRONG
from dovetail.outputs.recognise import recognise
from dovetail.outputs.view import HeadView
from dovetail.quantize.cache import BoundedCache
from dovetail.quantize.calibrate import load_float

if TYPE_CHECKING:
    from PIL.Image import Image

_HEAD_LOOK = 6
"""Pictures on which the head is recognised."""
_LOOKS = (4, 8, 16, 24)
"""Pictures after which what is unlikely by then is not looked at any further."""
_BALANCED = 3
"""Pictures that the signals of the first layer are measured on."""
_STRANGERS = 8
"""Other pictures that each is compared with."""
_KEPT_BYTES = 1 << 26
"""Bytes of pictures in the size of the input that are kept while variants are tried."""
_EXAMPLE_SIDE = 480
"""Pixels a side of a picture in the example for an input that leaves them open."""
_UNLIKELY_DB = 20.0
"""Decibans behind the best from which a variant is not looked at again: a hundred to one."""


_Values = tuple[Normal | None, Channels]
"""What becomes of a pixel's numbers: a normalisation, None for a stated one, and the order of the channels."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One way to make the input, and how likely it is beside the others."""

    name: str
    preprocess: Preprocess
    probability: float
    evidence: tuple[tuple[str, float], ...]
    """What speaks for it, in decibans: beside the best, not above 0."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """Ways to make the input, the likeliest first; `source` is where it is stated, empty where it was tried."""

    ranked: tuple[Proposal, ...]
    source: str = ""
    pictures: int = 0
    """Pictures that were looked at."""

    @property
    def best(self) -> Proposal:
        """Return the likeliest."""
        return self.ranked[0]

    @property
    def rivals(self) -> tuple[Proposal, ...]:
        """Return the others that are not told from the likeliest by odds of four to one, a fair finding."""
        limit = self.best.probability / 10 ** (FAIR / 10)
        return tuple(item for item in self.ranked[1:] if item.probability > limit)


@dataclass
class _Trial:
    """One variant with what is known of it so far."""

    variant: Variant
    evidence: dict[str, float] = field(default_factory=dict)
    plain: list[Decided] = field(default_factory=list)
    """What is decided in the first pictures as they are."""
    kept: list[float] = field(default_factory=list)
    """How much of that is decided in their mirror images and where they are moved, in 0..1."""
    consistency: list[float] = field(default_factory=list)
    """The same, less how much of it is decided in other pictures."""

    @property
    def weight(self) -> float:
        return sum(self.evidence.values())

    @property
    def seen(self) -> float:
        """The mean consistency."""
        return float(np.mean(self.consistency))


def propose_preprocess(graph: Graph, pictures: Sequence[Path], stated: Stated | None = None) -> Proposals:
    """Return ways to make the input of a float model from pictures, the likeliest first.

    Raises DataError where the model has no image input, or where no picture can be read.
    """
    bench = _Bench(graph, pictures)
    if stated is not None and stated.preprocess is not None:
        return Proposals((Proposal("as stated", stated.preprocess, 1.0, ()),), stated.source)
    try:
        return _tried(bench, stated)
    finally:
        bench.executable.close()


class _Bench:
    """A float model, and pictures to try variants on."""

    def __init__(self, graph: Graph, pictures: Sequence[Path]) -> None:
        specs = specs_of(graph)
        image = image_of(graph)
        unknown = open_image_of(graph, _EXAMPLE_SIDE)
        if image is None and unknown is not None:
            name, shape = unknown
            raise DataError(
                f"input '{name}' of '{graph.name}' leaves the size of its picture open.",
                hint=f"Fix it, for example {name}={','.join(map(str, shape))}.",
                option="shape",
            )
        several = [item.name for item in images_of(graph)] if image is None else []
        if several:
            raise DataError(
                f"'{graph.name}' has {len(several)} inputs that look like pictures ({', '.join(several)}), "
                "and a folder of pictures feeds one.",
                hint="Give arrays: an .npz file with one for each input.",
                option="data",
            )
        if image is None:
            raise DataError(f"'{graph.name}' has no input that looks like a picture.", hint="Give arrays.")
        self.graph, self.image, self.pictures = graph, image, list(pictures)
        self._pictures: BoundedCache[Image] = BoundedCache(_KEPT_BYTES)
        self.spec: InputSpec = next(spec for spec in specs if spec.name == image.name)
        self.executable: Executable = load_float(graph)
        self.shapes = {spec.name: tuple(1 if size is None else size for size in spec.shape) for spec in specs}
        # Text and digits, which grey inputs are mostly for, are something else in a mirror.
        self.warps = (Warp.MOVED, Warp.MOVED_BACK) if image.channels == 1 else (Warp.MIRRORED, Warp.MOVED)

    @cached_property
    def fitting(self) -> bool:
        """Tell whether all pictures have the size of the input."""
        sizes = {picture_size(path) for path in self.pictures}
        return sizes == {(self.image.rows, self.image.cols)}

    def feed(self, preprocess: Preprocess, number: int, warp: Warp = Warp.NONE) -> dict[str, AnyArray]:
        """Return the input made of a picture."""
        name = self.pictures[number].name
        tensor = to_tensor(self._placed(preprocess, number), preprocess, self.spec, f"picture '{name}'")
        return {self.image.name: warped(conform(tensor, self.spec, name), warp, self.image)}

    def _placed(self, preprocess: Preprocess, number: int) -> Image:
        """Return a picture in the size of the input: variants differ mostly in what becomes of its numbers."""
        key = number, preprocess.channels, preprocess.steps, preprocess.interpolation
        known = self._pictures.get(key)
        if known is not None:
            return known
        path = self.pictures[number]
        where = f"picture '{path.name}'"
        picture, _ = place(load_image(path, preprocess.channels, where), preprocess, where)
        return self._pictures.put(key, picture, picture.width * picture.height * len(picture.getbands()))

    def run(self, preprocess: Preprocess, number: int, warp: Warp = Warp.NONE) -> dict[str, AnyArray]:
        """Return the outputs for a picture."""
        return dict(self.executable.run(self.feed(preprocess, number, warp)))


def _tried(bench: _Bench, stated: Stated | None) -> Proposals:
    balances = _balances(bench, stated)
    head = _head(bench, stated, balances)
    convention = convention_of(head, bench.image)
    if bench.fitting:
        convention = replace(convention, fits=(PictureFit.AS_IS,))
    trials = [_Trial(item) for item in _variants(bench.image, convention, stated)]
    _by_convention(trials, convention)
    _by_weights(trials, balances)
    likely = _raced(bench, head, trials)
    best = max(likely, key=lambda trial: trial.weight)
    fits = [] if bench.fitting else [_Trial(item) for item in _other_fits(bench.image, head, best.variant)]
    for trial in fits:
        trial.evidence = dict(best.evidence)
    _by_fit([best, *fits], convention)
    kept = _raced(bench, head, [best, *fits])
    every = [*(trial for trial in likely if trial is not best), *kept]
    _by_consistency(every)
    return _ranked(every, "" if stated is None else stated.source, max(len(trial.consistency) for trial in every))


def _head(bench: _Bench, stated: Stated | None, balances: Mapping[_Values, Mapping[str, float]]) -> HeadView:
    """Return the head that decides, seen with the values that the first layer's weights hint at.

    The design of a head does not depend on how the input is made, what its numbers mean is told from their values.
    """
    trials = [_Trial(item) for item in _variants(bench.image, _plain(bench.image), stated)]
    _by_weights(trials, balances)
    start = max(trials, key=lambda trial: trial.weight).variant
    runs = [bench.run(start.preprocess, number) for number in range(min(_HEAD_LOOK, len(bench.pictures)))]
    view = recognise(bench.graph, runs, bench.shapes)
    return max(view.decisions or view.heads, key=lambda head: head.confidence)


def _plain(image: ImageInput) -> Convention:
    """Return what is taken before the design is known."""
    return Convention((), Channels.GREY if image.channels == 1 else Channels.RGB, (PictureFit.STRETCH,))


def _variants(image: ImageInput, convention: Convention, stated: Stated | None) -> Iterator[Variant]:
    """Yield every usual normalisation and order, fitted in the way that is most usual for the design."""
    fit = convention.fits[0]
    orders = (Channels.GREY,) if image.channels == 1 else (Channels.RGB, Channels.BGR)
    if stated is not None:
        for order in orders if stated.channels is None else (stated.channels,):
            made = Preprocess(steps_of(fit, image), order, mean=stated.mean, scale=stated.scale)
            yield Variant(None, order, fit, made)
        return
    for normal in normals_for(orders[0]):
        for order in orders:
            yield variant(normal, order, fit, image)


def _other_fits(image: ImageInput, head: HeadView, best: Variant) -> Iterator[Variant]:
    for fit in fits_for(head):
        if fit is not best.fit:
            same = best.preprocess
            made = Preprocess(steps_of(fit, image), same.channels, mean=same.mean, scale=same.scale)
            yield Variant(best.normal, best.channels, fit, made)


def _by_convention(trials: Sequence[_Trial], convention: Convention) -> None:
    for trial in trials:
        normal, order = trial.variant.normal, trial.variant.channels
        if convention.normals and normal is not None:
            trial.evidence["usual for the design"] = 0.0 if normal in convention.normals else -STRONG
        if order in (Channels.RGB, Channels.BGR):
            trial.evidence["usual order"] = 0.0 if order is convention.channels else -FAIR
        if normal is Normal.CAFFE:
            trial.evidence["Caffe's means are of BGR"] = 0.0 if order is Channels.BGR else -FAIR


def _by_fit(trials: Sequence[_Trial], convention: Convention) -> None:
    for trial in trials:
        place = convention.fits.index(trial.variant.fit) if trial.variant.fit in convention.fits else None
        trial.evidence["usual geometry"] = -STRONG if place is None else -SLIGHT * place


def _balances(bench: _Bench, stated: Stated | None) -> Mapping[_Values, Mapping[str, float]]:
    """Return what the first layer's weights say of every normalisation and order; nothing where there is no such layer.

    How pictures are fitted hardly changes it: they are stretched.
    """
    layer = first_layer(bench.graph)
    if layer is None:
        return {}
    order = order_of(layer, bench.image)
    found: dict[_Values, Mapping[str, float]] = {}
    executable = load_float(beginning(bench.graph, layer))
    with closing(executable):
        for item in _variants(bench.image, _plain(bench.image), stated):
            feeds = [bench.feed(item.preprocess, number) for number in range(min(_BALANCED, len(bench.pictures)))]
            evidence = {"biases balance signals": balance_db(layer, executable, feeds)}
            if order is not None:
                evidence["red outweighs blue"] = 0.0 if item.channels is order else -FAIR
            found[item.normal, item.channels] = evidence
    return found


def _by_weights(trials: Sequence[_Trial], balances: Mapping[_Values, Mapping[str, float]]) -> None:
    for trial in trials:
        trial.evidence.update(balances.get((trial.variant.normal, trial.variant.channels), {}))


def _raced(bench: _Bench, head: HeadView, trials: Sequence[_Trial]) -> list[_Trial]:
    """Return the trials that are not far behind by all that is known, looking at more pictures while it matters."""
    alive = _hopeful(bench, head, sorted(trials, key=lambda trial: -trial.weight))
    for count in _LOOKS:
        seen = min(count, len(bench.pictures))
        for trial in alive:
            _look(bench, head, trial, seen)
        _by_consistency(alive)
        best = max(trial.weight for trial in alive)
        alive = [trial for trial in alive if trial.weight >= best - _UNLIKELY_DB]
        if len(alive) < 2 or not all(trial.consistency for trial in alive) or seen == len(bench.pictures):
            break
    return alive


def _hopeful(bench: _Bench, head: HeadView, trials: Sequence[_Trial]) -> list[_Trial]:
    """Return the trials that would lead if they saw the same in all pictures, where the first of them does not."""
    first = trials[0]
    _look(bench, head, first, min(_LOOKS[0], len(bench.pictures)))
    if not first.consistency:
        return list(trials)
    perfect = _odds_db(np.array(first.consistency) - 1.0)
    return [trial for trial in trials if trial is first or trial.weight >= first.weight + perfect]


def _look(bench: _Bench, head: HeadView, trial: _Trial, count: int) -> None:
    """Find the consistency of pictures up to a number; none where a head's decision cannot be followed."""
    preprocess, image = trial.variant.preprocess, bench.image
    for number in range(len(trial.plain), count if count > 1 else 0):
        own = decided(head, bench.run(preprocess, number))
        if own is None:
            return
        changes = ((warp, decided(head, bench.run(preprocess, number, warp))) for warp in bench.warps)
        same = [sameness(head, own, other, warp, image) for warp, other in changes if other is not None]
        trial.plain.append(own)
        trial.kept.append(float(np.mean(same)))
    trial.consistency = [
        kept - _as_in_others(head, trial.plain, number, image) for number, kept in enumerate(trial.kept)
    ]


def _as_in_others(head: HeadView, plain: Sequence[Decided], number: int, image: ImageInput) -> float:
    """Return how much of what is decided in a picture is decided in others."""
    others = range(1, min(_STRANGERS + 1, len(plain)))
    strangers = (plain[(number + step) % len(plain)] for step in others)
    return float(np.mean([sameness(head, plain[number], other, Warp.NONE, image) for other in strangers]))


def _by_consistency(trials: Sequence[_Trial]) -> None:
    """Weigh each trial against the most consistent one, picture by picture.

    The evidence is the odds that the mean difference is above 0, by Student's distribution: pictures may be few. It is
    counted among trials that fit pictures alike, and between the best of these at most as a fair finding.
    """
    known = [trial for trial in trials if trial.consistency]
    if len(known) < len(trials) or not known:
        return
    first: dict[PictureFit, _Trial] = {}
    for trial in sorted(known, key=lambda trial: -trial.seen):
        first.setdefault(trial.variant.fit, trial)
    best = max(first.values(), key=lambda trial: trial.seen)
    for trial in known:
        own = first[trial.variant.fit]
        trial.evidence["sees the same in a mirror"] = _apart_db(trial, own)
        trial.evidence["sees more when fitted so"] = max(-FAIR, _apart_db(own, best))


def _apart_db(trial: _Trial, best: _Trial) -> float:
    """Return the decibans for a trial beside a more consistent one, on the pictures that both have seen."""
    count = min(len(trial.consistency), len(best.consistency))
    return _odds_db(np.array(trial.consistency[:count]) - np.array(best.consistency[:count]))


def _odds_db(apart: NDArray[np.float64]) -> float:
    """Return the decibans for a mean difference of 0 or more, at most 0; differences are bounded by a score's range."""
    count = len(apart)
    if count < 2 or not apart.any():
        return 0.0
    error = max(float(apart.std(ddof=1)) / math.sqrt(count), 0.02)
    above = float(special.stdtr(count - 1, float(apart.mean()) / error))
    return min(0.0, 10 * math.log10(max(above, 1e-300) / max(1.0 - above, 1e-300)))


def _ranked(trials: Sequence[_Trial], source: str, pictures: int) -> Proposals:
    top = max(trial.weight for trial in trials)
    odds = [10 ** (max(trial.weight - top, -300.0) / 10) for trial in trials]
    found = [
        Proposal(trial.variant.name, trial.variant.preprocess, share / sum(odds), tuple(trial.evidence.items()))
        for trial, share in zip(trials, odds, strict=True)
    ]
    return Proposals(tuple(sorted(found, key=lambda item: -item.probability)), source, pictures)
