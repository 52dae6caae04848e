"""Files of some kinds below a folder."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from dovetail.errors import DataError


def check_listed(folder: Path) -> None:
    """Raise DataError where the system keeps the names in a folder from us: it would look empty."""
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise _kept(error) from error


def list_files(root: Path, suffixes: Collection[str]) -> list[str]:
    """Return the files with one of some suffixes (in small letters) below `root`, as sorted `/`-separated paths.

    Hidden files and folders are left out, links to folders are not followed. Raises DataError for a folder that cannot
    be read.
    """
    found: list[str] = []
    for folder, names, files in os.walk(root, onerror=_refuse, followlinks=False):
        names[:] = [name for name in names if not name.startswith(".")]
        for file in files:
            if not file.startswith(".") and os.path.splitext(file)[1].lower() in suffixes:
                found.append((Path(folder) / file).relative_to(root).as_posix())
    return sorted(found)


def _refuse(error: OSError) -> None:
    raise _kept(error) from error


def _kept(error: OSError) -> DataError:
    return DataError(f"{error.filename}: cannot be read ({error.strerror}).", hint="Check who may read the folder.")
