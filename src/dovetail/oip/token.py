"""Tokens in files."""

from __future__ import annotations

from pathlib import Path

from dovetail.errors import RemoteError

_LEAST_CHARS = 16
_MOST_BYTES = 4096


def read_token(path: Path) -> str:
    """Return the token in a file; raise RemoteError where it is short, or others may read the file."""
    try:
        mode = path.stat().st_mode
        with path.open("rb") as stream:
            text = stream.read(_MOST_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RemoteError(f"{path}: no token can be read: {error}.", hint="Write one line of ASCII.") from error
    if mode & 0o077:
        raise RemoteError(f"{path}: others may read this token.", hint=f"Run: chmod 600 {path}")
    if len(text) < _LEAST_CHARS or any(sign.isspace() for sign in text):
        raise RemoteError(
            f"{path}: a token has {_LEAST_CHARS} characters or more, and no spaces.",
            hint="Make one with: python -c 'import secrets; print(secrets.token_urlsafe())'",
        )
    return text
