"""Boards that a user has given names, with their credentials, in a file that nobody else may read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dovetail.errors import RemoteError, suggestion
from dovetail.files import read_file
from dovetail.remote.access import BoardAccess

TOKEN_VARIABLE = "DOVETAIL_BOARD_TOKEN"
"""The environment's variable with the token for boards that are named by their address."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_KIND = "dovetail-boards"
_PATHS = ("ca", "cert", "key")


def boards_file() -> Path:
    """Return where the boards of this user are kept."""
    config = os.environ.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "dovetail" / "boards.json"


def known_boards() -> Mapping[str, BoardAccess]:
    """Return the boards by name; raise RemoteError where the file is damaged or others may read it."""
    path = boards_file()
    if not path.exists():
        return {}
    if path.stat().st_mode & 0o077:
        raise RemoteError(f"{path}: others may read the tokens in it.", hint=f"Run: chmod 600 {path}")
    try:
        document = json.loads(read_file(path, 1 << 20))
        if document["kind"] != _KIND:
            raise ValueError("it is of another kind")
        return {str(name): _access(fields) for name, fields in document["boards"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RemoteError(f"{path}: damaged: {error}.", hint="Move it away and add the boards again.") from error


def board_access(text: str) -> BoardAccess:
    """Return how to reach a board that is named, or whose address is given; raise RemoteError for an unknown name."""
    if "://" in text:
        return BoardAccess(text, os.environ.get(TOKEN_VARIABLE) or None)
    boards = known_boards()
    if text not in boards:
        hint = suggestion(text, sorted(boards)) if boards else "Add it with 'dovetail board add', or give its address."
        raise RemoteError(f"board '{text[:80]}' is unknown.", hint=hint)
    return boards[text]


def add_board(name: str, access: BoardAccess) -> None:
    """Keep a board under a name; one of that name is replaced. Raises RemoteError for a name that is none."""
    if not _NAME.fullmatch(name):
        raise RemoteError(f"'{name[:80]}' is no name of a board.", hint="Letters, digits, '_', '-' and '.'.")
    ca, cert, key = (None if path is None else path.absolute() for path in (access.ca, access.cert, access.key))
    _write({**known_boards(), name: replace(access, ca=ca, cert=cert, key=key)})


def remove_board(name: str) -> None:
    """Forget a board; raise RemoteError where there is none of that name."""
    boards = dict(known_boards())
    if boards.pop(name, None) is None:
        raise RemoteError(f"board '{name[:80]}' is unknown.", hint=suggestion(name, sorted(boards)))
    _write(boards)


def _access(fields: Mapping[str, object]) -> BoardAccess:
    paths = {key: Path(str(fields[key])) for key in _PATHS if fields.get(key)}
    token = fields.get("token")
    return BoardAccess(
        str(fields["url"]), None if token is None else str(token), insecure=fields.get("insecure") is True, **paths
    )


def _write(boards: Mapping[str, BoardAccess]) -> None:
    path = boards_file()
    rows = {
        name: {
            "url": board.url,
            "token": board.token,
            **{key: None if (file := getattr(board, key)) is None else str(file) for key in _PATHS},
            "insecure": board.insecure,
        }
        for name, board in boards.items()
    }
    text = json.dumps({"kind": _KIND, "boards": rows}, indent=1) + "\n"
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made with its mode: there is no moment in which others could read it.
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise RemoteError(f"{path}: cannot be written: {error.strerror}.") from error
