"""The folder of a fit: claimed before the search, so that a killed one goes on in it; filled in the end.

A folder belongs to one question: what answers another one is not written over unless that is asked for. What a person
has edited since is known by its checksum and stays.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from dovetail.errors import DovetailError
from dovetail.files import write_file
from dovetail.seal import sealed, unsealed

_REQUEST = "request.json"
_KIND = "dovetail-tune"
_HINT = "Choose another folder."
_FILES = "files"
_COMPARED = {"graph": "model", "data": "data", "metric": "metric", "low": "start", "max_drop": "goal"}
"""What makes a question, and what it is called in a message."""


def refuse_folder(folder: Path, question: Mapping[str, object], *, overwrite: bool = False) -> None:
    """Raise DovetailError for a folder that is not a search's, or answers what is not to be replaced; touch nothing."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DovetailError(f"{folder}: exists and is no folder.", hint=_HINT, option="output")
    before = read_question(folder)
    # A kill before the question had its name leaves only the draft of it, which is ours.
    drafts = f".{_REQUEST}."
    if before is None and folder.is_dir() and any(not item.name.startswith(drafts) for item in folder.iterdir()):
        raise DovetailError(
            f"{folder}: holds files that dovetail tune did not make: it stays as it is.", hint=_HINT, option="output"
        )
    others = [] if before is None else _differences(before, question)
    if before is not None and not _files_of(before):
        # No answer yet, and the goal is no part of what was evaluated: whoever mistyped it may say it otherwise.
        others = [one for one in others if not one.startswith(f"{_COMPARED['max_drop']} ")]
    if others and not overwrite:
        raise DovetailError(
            f"{folder}: answers another question ({'; '.join(others)}): it stays as it is.",
            hint="Choose another folder, or say that it shall be replaced.",
            option="overwrite",
        )


def claim_folder(folder: Path, question: Mapping[str, object], *, overwrite: bool = False) -> None:
    """Make the folder of a search, or take up one of ours; raise DovetailError for what `refuse_folder` refuses."""
    refuse_folder(folder, question, overwrite=overwrite)
    before = read_question(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DovetailError(f"{folder}: cannot be made: {error.strerror}.", hint=_HINT, option="output") from error
    _write_request(folder, question, {} if before is None else _files_of(before))


def fill_folder(folder: Path, texts: Mapping[str, str | bytes], *, overwrite: bool = False) -> Mapping[str, Path]:
    """Write the files of an answer into a folder that is claimed, and return where each one is.

    A file that was edited since it was written stays, and the new one goes beside it as `NAME.new.EXTENSION`, unless
    `overwrite` says otherwise. Files of an earlier answer that this one does not have are removed where nobody edited
    them.
    """
    question = read_question(folder) or {}
    before = _files_of(question)
    edited = {name for name, known in before.items() if _is_edited(folder / name, known)}
    kept = set() if overwrite else edited
    for name in before.keys() - texts.keys() - kept:
        (folder / name).unlink(missing_ok=True)
    made = {name: [_digest(text.encode() if isinstance(text, str) else text)] for name, text in texts.items()}
    # First both forms count as ours: a kill in between makes no edit of what was only half written.
    both = {name: [*before.get(name, []), *digests] for name, digests in made.items()}
    _write_request(folder, question, both)
    places = {name: folder / (_beside(name) if name in kept else name) for name in texts}
    for name, text in texts.items():
        write_file(places[name], text)
    _write_request(folder, question, {name: before[name] if name in kept else made[name] for name in texts})
    return places


def read_question(folder: Path) -> Mapping[str, object] | None:
    """Return the question that the folder of a search answers; None where it is none.

    Raises DovetailError when the file that says it is damaged.
    """
    try:
        document = json.loads((folder / _REQUEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        return None
    try:
        return unsealed(document)
    except ValueError as error:
        raise DovetailError(f"{folder / _REQUEST}: {error}.", hint=_HINT, option="output") from error


def _differences(before: Mapping[str, object], question: Mapping[str, object]) -> list[str]:
    """Return in what two questions differ, each as a few words."""
    found = []
    for key, what in _COMPARED.items():
        if key not in before:
            continue
        old, new = before[key], question.get(key)
        if key == "data":
            old, new = (os.path.abspath(str(item)) for item in (old, new))
        if old != new:
            shown = before.get("model") if key == "graph" else before.get(key)
            found.append(f"{what} {shown}")
    return found


def _write_request(folder: Path, question: Mapping[str, object], files: Mapping[str, list[str]]) -> None:
    asked = {key: value for key, value in question.items() if key not in ("schema", "kind", _FILES)}
    document = {"schema": 1, "kind": _KIND, **asked, _FILES: files}
    write_file(folder / _REQUEST, json.dumps(sealed(document), indent=1, ensure_ascii=False) + "\n")


def _files_of(document: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the checksums of the files that dovetail wrote, by name; no names that lead elsewhere."""
    files = document.get(_FILES)
    if not isinstance(files, dict):
        return {}
    return {
        name: [str(digest) for digest in digests]
        for name, digests in files.items()
        if isinstance(digests, list) and name == Path(name).name and name not in ("", ".", "..")
    }


def _is_edited(path: Path, known: list[str]) -> bool:
    try:
        return _digest(path.read_bytes()) not in known
    except OSError:
        return False


def _beside(name: str) -> str:
    path = Path(name)
    return f"{path.stem}.new{path.suffix}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
