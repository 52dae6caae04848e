"""Models in two files: a text that describes the network, and its weights beside it."""

from __future__ import annotations

from pathlib import Path

from dovetail.errors import LoadError
from dovetail.importers.options import LoadOptions

_MAX_TEXT_BYTES = 16 * 1024**2


def read_pair(path: Path, text_suffix: str, weights_suffix: str, options: LoadOptions) -> tuple[str, bytes]:
    """Return the text and the weights; `path` may name either, the other has the same stem.

    Raises LoadError when one of them is missing, unreadable or too large.
    """
    text = _read(path.with_suffix(text_suffix), path, min(options.max_file_bytes, _MAX_TEXT_BYTES))
    weights = _read(path.with_suffix(weights_suffix), path, options.max_file_bytes)
    try:
        return text.decode(), weights
    except UnicodeDecodeError as error:
        raise LoadError(f"{path.with_suffix(text_suffix)}: is not text (byte {error.start}).") from error


def _read(path: Path, named: Path, limit: int) -> bytes:
    try:
        size = path.stat().st_size
        if size > limit:
            raise LoadError(f"{path}: {size} bytes are more than the allowed {limit}.")
        return path.read_bytes()
    except OSError as error:
        hint = "" if path == named else f" It is the other half of {named.name}: both have one stem and one folder."
        raise LoadError(f"{path}: cannot be read: {error.strerror}.{hint}", hint="Copy both files.") from error
