"""What is in a folder of pictures, before anything is run on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.data.image_store import list_images
from dovetail.errors import DataError

_GREY = frozenset({"1", "L", "LA", "I;16", "I", "F"})
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class PictureSurvey:
    """What a folder of pictures holds; names are relative to it."""

    pictures: tuple[str, ...]
    """Those that can be read, by their headers."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Name and reason."""
    grey: tuple[str, ...] = ()
    smallest: tuple[int, int] = (0, 0)
    """Rows and columns of the picture with the fewest pixels."""
    largest: tuple[int, int] = (0, 0)
    sizes: int = 0
    """How many different sizes there are."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a line for everything that a person should know of those that can be read."""
        lines: list[str] = []
        count = len(self.pictures)
        if self.grey and len(self.grey) < count:
            lines.append(f"{len(self.grey)} of {count} pictures are grey: {_names(self.grey)}")
        elif self.grey:
            lines.append("all pictures are grey")
        if self.sizes > 1:
            small, large = (f"{cols}x{rows}" for rows, cols in (self.smallest, self.largest))
            lines.append(f"pictures of {self.sizes} sizes, from {small} to {large}")
        return tuple(lines)


def survey_pictures(root: Path) -> PictureSurvey:
    """Return what a folder of pictures holds; raise DataError where it holds none that can be read."""
    if not root.is_dir():
        raise DataError(f"{root}: no such folder.")
    names = list_images(root)
    if not names:
        raise DataError(f"{root}: no .jpg, .jpeg, .png or .bmp file.")
    good: dict[str, tuple[str, int, int]] = {}
    bad: list[tuple[str, str]] = []
    for name in names:
        found = _header(root / name)
        if isinstance(found, str):
            bad.append((name, found))
        else:
            good[name] = found
    if not good:
        raise DataError(f"{root}: none of {len(names)} pictures can be read: {bad[0][0]} ({bad[0][1]}).")
    sizes = Counter((rows, cols) for _, rows, cols in good.values())
    ordered = sorted(sizes, key=lambda size: size[0] * size[1])
    grey = tuple(name for name, (mode, _, _) in good.items() if mode in _GREY)
    return PictureSurvey(tuple(good), tuple(bad), grey, ordered[0], ordered[-1], len(sizes))


def _header(path: Path) -> tuple[str, int, int] | str:
    """Return mode, rows and columns of a picture that decodes, or why it does not."""
    import PIL.Image

    try:
        with PIL.Image.open(path) as image:
            image.load()
            return image.mode, image.height, image.width
    except (OSError, SyntaxError, ValueError, EOFError, PIL.Image.DecompressionBombError) as error:
        return " ".join(str(error).replace(str(path), path.name).split())[:120]


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(names[:_MOST_NAMES])
    return listed if len(names) <= _MOST_NAMES else f"{listed} and {len(names) - _MOST_NAMES} more"
