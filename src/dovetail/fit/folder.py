"""The folder of a fit: claimed before the search, so that a killed one goes on in it; filled in the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from dovetail.errors import DovetailError
from dovetail.files import write_file

_REQUEST = "request.json"
_KIND = "dovetail-tune"
_HINT = "Choose another folder."


def claim_folder(folder: Path, question: Mapping[str, object]) -> None:
    """Make the folder of a search, or take up one of ours; raise DovetailError when it holds something else."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DovetailError(f"{folder}: exists and is no folder.", hint=_HINT, option="output")
    if folder.is_dir() and any(folder.iterdir()) and not _is_request(folder / _REQUEST):
        raise DovetailError(
            f"{folder}: holds files that dovetail tune did not make: it stays as it is.", hint=_HINT, option="output"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DovetailError(f"{folder}: cannot be made: {error.strerror}.", hint=_HINT, option="output") from error
    document = {"schema": 1, "kind": _KIND, **question}
    write_file(folder / _REQUEST, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _is_request(path: Path) -> bool:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("kind") == _KIND
