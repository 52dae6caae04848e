"""Files of some kinds below a folder."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path


def list_files(root: Path, suffixes: Collection[str]) -> list[str]:
    """Return the files with one of some suffixes (in small letters) below `root`, as sorted `/`-separated paths.

    Hidden files and folders are left out, links to folders are not followed.
    """
    found: list[str] = []
    for folder, names, files in os.walk(root, followlinks=False):
        names[:] = [name for name in names if not name.startswith(".")]
        for file in files:
            if not file.startswith(".") and os.path.splitext(file)[1].lower() in suffixes:
                found.append((Path(folder) / file).relative_to(root).as_posix())
    return sorted(found)
