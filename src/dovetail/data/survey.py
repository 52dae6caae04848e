"""What is in a folder of pictures, before anything is run on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dovetail.data.image import DAMAGED, refusal
from dovetail.data.image_store import OTHER_SUFFIXES, list_images, no_images
from dovetail.data.listing import list_files
from dovetail.errors import DataError

_GREY = frozenset({"1", "L", "LA"})
_ALPHA = frozenset({"LA", "PA", "RGBA"})
_PRINT = frozenset({"CMYK"})
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class PictureSurvey:
    """What a folder of pictures holds; names are relative to it."""

    pictures: tuple[str, ...]
    """Those that can be read, by their headers."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Name and reason."""
    grey: tuple[str, ...] = ()
    alpha: tuple[str, ...] = ()
    """Those with transparency, which no model sees."""
    printed: tuple[str, ...] = ()
    """Those in the colours of a printer."""
    others: tuple[str, ...] = ()
    """Pictures of kinds that are not read."""
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
        if self.alpha:
            lines.append(f"the transparency of {len(self.alpha)} of {count} pictures is dropped: {_names(self.alpha)}")
        if self.printed:
            lines.append(
                f"{len(self.printed)} of {count} pictures are CMYK, made RGB without a profile: {_names(self.printed)}"
            )
        if self.others:
            lines.append(f"{len(self.others)} files are no .jpg, .png or .bmp and left out: {_names(self.others)}")
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
        raise no_images(root)
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
    grey, alpha, printed = (
        tuple(name for name, (mode, _, _) in good.items() if mode in modes) for modes in (_GREY, _ALPHA, _PRINT)
    )
    return PictureSurvey(
        pictures=tuple(good),
        unreadable=tuple(bad),
        grey=grey,
        alpha=alpha,
        printed=printed,
        others=tuple(list_files(root, OTHER_SUFFIXES)),
        smallest=ordered[0],
        largest=ordered[-1],
        sizes=len(sizes),
    )


def _header(path: Path) -> tuple[str, int, int] | str:
    """Return mode, rows and columns of a picture that decodes, or why it does not."""
    import PIL.Image

    try:
        with PIL.Image.open(path) as image:
            reason = refusal(image)
            if reason:
                return reason
            image.load()
            return image.mode, image.height, image.width
    except (*DAMAGED, PIL.Image.DecompressionBombError) as error:
        return " ".join(str(error).replace(str(path), path.name).split())[:120]


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(names[:_MOST_NAMES])
    return listed if len(names) <= _MOST_NAMES else f"{listed} and {len(names) - _MOST_NAMES} more"
