"""What is said where the system keeps a file or folder from a command: nothing that Dovetail could mend."""

from __future__ import annotations

import errno
import os

_WHOSE = "Check who may read and write it and the folders above it, or give another path."
_ROOM = "Make room there, or choose another disk."
_HINTS = {
    errno.EACCES: _WHOSE,
    errno.EPERM: _WHOSE,
    errno.EROFS: "Choose another folder, on a disk that can be written.",
    errno.ENAMETOOLONG: "Check the path.",
    errno.ELOOP: "Check the path.",
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
}


def kept_place(error: BaseException) -> str:
    """Return what to say of an error of the system that names a place; an empty text for any other error."""
    if not isinstance(error, OSError) or not isinstance(error.filename, str | bytes):
        return ""
    hint = _HINTS.get(error.errno or 0)
    return "" if hint is None else f"{os.fsdecode(error.filename)}: cannot be used: {error.strerror}. {hint}"
