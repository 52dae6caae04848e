"""How a fit makes inputs of pictures where nobody says it: as the model states, or the likeliest of the usual ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from dovetail.data import (
    DataKind,
    Preprocess,
    data_kind,
    load_preprocess,
    preprocess_to_toml,
    samples_path,
    survey_pictures,
)
from dovetail.data.audio_store import AUDIO_SUFFIXES
from dovetail.data.image_store import list_images
from dovetail.data.listing import list_files
from dovetail.data.video_store import VIDEO_SUFFIXES, write_frames
from dovetail.errors import DataError
from dovetail.fit.request import AUTO, Place
from dovetail.inputs import InputTypes, Proposals, propose_preprocess, stated_preprocess
from dovetail.ir import Graph
from dovetail.outputs.ends import image_of

_LOOK = 24
"""Pictures that the usual ways are tried on."""


_FRAMES = "frames of one video resemble each other: they are less evidence than as many pictures"
_WINDOWS = "sounds are cut into windows as long as the input, mono, in -1..1"


class PictureQuestion(Protocol):
    """What a request says of its pictures and of the model that reads them."""

    @property
    def model(self) -> Place: ...

    @property
    def data(self) -> Place: ...

    @property
    def preprocess(self) -> Place | Preprocess | None: ...


@dataclass(frozen=True, slots=True)
class ChosenPreprocess:
    """How pictures become inputs; None where samples are no pictures."""

    preprocess: Preprocess | None
    proposals: Proposals | None = None
    """What it was chosen from; None where it was given."""
    notes: tuple[str, ...] = ()

    @property
    def toml(self) -> str:
        """Return the choice as a file to confirm or edit; empty where it was given."""
        if self.proposals is None:
            return ""
        return preprocess_to_toml(self.proposals.best.preprocess, (_choice(self.proposals),))


def choose_preprocess(request: PictureQuestion, source: Graph, graph: Graph) -> ChosenPreprocess:
    """Return how pictures become inputs: as it is given, else stated or proposed for pictures and frames of videos.

    `source` is the model as it came, `graph` its float form. Windows of sounds are inputs as they are. Raises DataError
    for what cannot be read, and where a way is to be found for arrays.
    """
    given, root = request.preprocess, samples_path(request.data)
    if isinstance(given, Preprocess):
        return ChosenPreprocess(given)
    kind = data_kind(root)
    notes = _notes(root) if kind is DataKind.PICTURES else (_FRAMES,) if kind is DataKind.VIDEOS else ()
    if given is not None and given != AUTO:
        return ChosenPreprocess(load_preprocess(Path(given)), None, notes)
    if kind is DataKind.PICTURES:
        pictures = list_pictures(root)
        step = max(1, len(pictures) // _LOOK)
        return _proposed(request, pictures[::step][:_LOOK], source, graph, notes)
    if kind is DataKind.VIDEOS:
        with TemporaryDirectory() as folder:
            return _proposed(request, write_frames(root, Path(folder), _LOOK), source, graph, notes)
    if given == AUTO and kind is not DataKind.SOUNDS:
        raise DataError(
            f"{root}: no pictures and no videos, so that no preprocessing can be tried.", option="preprocess"
        )
    return ChosenPreprocess(None, None, (_WINDOWS,) if kind is DataKind.SOUNDS else ())


def _proposed(
    request: PictureQuestion, pictures: Sequence[Path], source: Graph, graph: Graph, notes: tuple[str, ...]
) -> ChosenPreprocess:
    """Return what is stated by a model, or proposed for some pictures."""
    image = image_of(graph)
    stated = None
    if image is not None:
        types = InputTypes(source.types.get(image.name, graph.types[image.name]), graph.types[image.name])
        stated = stated_preprocess(Path(request.model), types, image)
    found = propose_preprocess(graph, pictures, stated)
    return ChosenPreprocess(found.best.preprocess, found, (_choice(found), *notes))


def list_pictures(root: Path) -> Sequence[Path]:
    """Return the pictures of a folder; none where it holds something else."""
    return [root / name for name in list_images(root)] if data_kind(root) is DataKind.PICTURES else []


def _notes(root: Path) -> tuple[str, ...]:
    survey = survey_pictures(root)
    if survey.unreadable:
        name, why = survey.unreadable[0]
        count = len(survey.pictures) + len(survey.unreadable)
        raise DataError(
            f"{root}: {len(survey.unreadable)} of {count} pictures cannot be read: {name} ({why}).",
            hint="Repair or remove them.",
            option="data",
        )
    media = [name for suffixes in (VIDEO_SUFFIXES, AUDIO_SUFFIXES) for name in list_files(root, suffixes)]
    left_out = (f"{len(media)} videos and sounds beside the pictures are left out",) if media else ()
    return (*survey.notes, *left_out)


def _choice(found: Proposals) -> str:
    best = found.best
    if found.source and len(found.ranked) == 1:
        return f"preprocessing as stated ({found.source})"
    rivals = " and ".join(item.name for item in found.rivals)
    other = f"; these pictures do not tell it from {rivals}" if rivals else ""
    stated = f"values stated ({found.source}), " if found.source else ""
    seen = f"on {found.pictures} pictures" if found.pictures else "by the first layer's weights alone"
    return f"preprocessing guessed {seen}: {stated}{best.name}, probability {best.probability:.2f}{other}; confirm it"
