"""How a fit makes inputs of pictures where nobody says it: as the model states, or the likeliest of the usual ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.data import Preprocess, load_preprocess, preprocess_to_toml, survey_pictures
from dovetail.data.image_store import list_images
from dovetail.errors import DataError
from dovetail.fit.request import AUTO, FitRequest
from dovetail.inputs import InputTypes, Proposals, propose_preprocess, stated_preprocess
from dovetail.ir import Graph
from dovetail.outputs.ends import image_of

_LOOK = 24
"""Pictures that the usual ways are tried on."""


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


def choose_preprocess(request: FitRequest, pictures: Sequence[Path], source: Graph, graph: Graph) -> ChosenPreprocess:
    """Return how pictures become inputs: as it is given, else stated or proposed for a folder of pictures.

    `pictures` are those of the data, `source` is the model as it came, `graph` its float form. Raises DataError for
    pictures that cannot be read, and where a way is to be found although the data is no folder of pictures.
    """
    given, root = request.preprocess, Path(request.data)
    if isinstance(given, Preprocess):
        return ChosenPreprocess(given)
    notes = _notes(root) if pictures else ()
    if given is not None and given != AUTO:
        return ChosenPreprocess(load_preprocess(Path(given)), None, notes)
    if not pictures:
        if given is None:
            return ChosenPreprocess(None)
        raise DataError(f"{root}: no folder of pictures, so that no preprocessing can be tried.", option="preprocess")
    image = image_of(graph)
    stated = None
    if image is not None:
        types = InputTypes(source.types.get(image.name, graph.types[image.name]), graph.types[image.name])
        stated = stated_preprocess(Path(request.model), types, image)
    step = max(1, len(pictures) // _LOOK)
    found = propose_preprocess(graph, pictures[::step][:_LOOK], stated)
    return ChosenPreprocess(found.best.preprocess, found, (_choice(found), *notes))


def list_pictures(root: Path) -> Sequence[Path]:
    """Return the pictures of a folder; none where it holds arrays."""
    if not root.is_dir() or any(root.glob("*.npy")) or any(root.glob("*/*.npy")):
        return []
    return [root / name for name in list_images(root)]


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
    return survey.notes


def _choice(found: Proposals) -> str:
    best = found.best
    if not found.pictures:
        return f"preprocessing as stated ({found.source})"
    other = f"; next is {found.ranked[1].name}" if len(found.ranked) > 1 else ""
    stated = f"values stated ({found.source}), " if found.source else ""
    return (
        f"preprocessing guessed on {found.pictures} pictures: {stated}{best.name}, "
        f"probability {best.probability:.2f}{other}; confirm it"
    )
