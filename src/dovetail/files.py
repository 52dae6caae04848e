"""Write files and folders all or nothing, and never over what is not ours."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.errors import DovetailError

_HEAD_BYTES = 512
_NAMES_OF_STREAMS = ("/dev", "/proc")
"""Where links are names for what a process has open, such as /dev/stdout."""
_MOST_BYTES = 256 << 20
_MOST_MODEL_BYTES = 2 << 30
_SIGNS = (
    b'"kind": "dovetail-',
    b"dovetail graph 1 ",
    b"# Made by dovetail",
    b"\x12\x08dovetail",
    b"Dovetail: ",
    b'{"event": "search", "schema": ',
)
"""What files of ours have near their start; the fourth is the producer name of an ONNX model, the last a log's."""


def read_file(path: Path, limit: int | None = None) -> bytes:
    """Return the bytes of a file; raise DovetailError when it cannot be read or is larger than any real one."""
    if limit is None:
        limit = _MOST_MODEL_BYTES if path.suffix.lower() == ".onnx" else _MOST_BYTES
    try:
        if path.stat().st_size > limit:
            raise DovetailError(f"{path}: larger than {limit} bytes.", hint="Is it the right file?")
        return path.read_bytes()
    except OSError as error:
        raise DovetailError(f"{path}: cannot be read: {error.strerror}.", hint="Check the path.") from error


def write_file(path: Path, content: str | bytes, *, replace: bool = False) -> None:
    """Write a file through a temporary one beside it.

    Raises DovetailError when it cannot be written, or stands in the place of a file that Dovetail did not make.
    With `replace` whatever file stands there gives way. A link stays: what it leads to is written.
    """
    if not replace:
        check_ours(path)
    check_replaceable(path)
    data = _encoded(path, content) if isinstance(content, str) else content
    if path.is_symlink():
        path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name[:60]}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(draft, 0o666 & ~_umask())
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise
    except OSError as error:
        raise DovetailError(f"{path}: cannot be written: {error.strerror}.", hint="Choose another place.") from error


def check_replaceable(path: Path) -> None:
    """Raise DovetailError where a path is a device, a pipe, or a name for an open file: no file takes their places.

    The superuser could put a file in the place of /dev/null, and reading a pipe would wait for ever.
    """
    stream = path.is_symlink() and os.path.realpath(path.parent).startswith(_NAMES_OF_STREAMS)
    if stream or (path.exists() and not path.is_file() and not path.is_dir()):
        raise DovetailError(
            f"{path}: is a device or a stream, a file is to be written.", hint="Choose the name of a file."
        )


def check_ours(path: Path) -> None:
    """Raise DovetailError when a path is taken by something that Dovetail did not make."""
    if not path.exists() and not path.is_symlink():
        return
    check_replaceable(path)
    if path.is_dir():
        raise DovetailError(f"{path}: is a folder, a file is to be written.", hint="Choose another name.")
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError as error:
        raise DovetailError(f"{path}: cannot be read: {error.strerror}.", hint="Choose another name.") from error
    if head and not any(sign in head for sign in _SIGNS):
        raise DovetailError(
            f"{path}: exists, and nothing in it says that dovetail made it: it stays as it is.",
            hint="Choose another name.",
            option="replace",
        )


@contextmanager
def new_folder(folder: Path, is_ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Give a draft folder that takes the place of `folder` when the body succeeds.

    Raises DovetailError when the folder holds something that is not ours or cannot be written.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DovetailError(f"{folder}: exists and is no folder.", hint="Choose another name.")
    if folder.exists() and any(folder.iterdir()) and not is_ours(folder):
        raise DovetailError(
            f"{folder}: holds files that dovetail did not make: it stays as it is.", hint="Choose another folder."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name[:60]}.", dir=folder.parent))
        aside = draft.with_name(f"{draft.name}.old")
        try:
            yield draft
            os.chmod(draft, 0o777 & ~_umask())
            if folder.exists():
                # Moved aside first: a kill between the two leaves one of them whole.
                os.replace(folder, aside)
            os.replace(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            if aside.exists() and not folder.exists():
                os.replace(aside, folder)
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise DovetailError(f"{folder}: cannot be written: {error.strerror}.", hint="Choose another place.") from error


def _encoded(path: Path, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        name = text[max(0, error.start - 20) : error.end + 20].encode("utf-8", "backslashreplace").decode()
        raise DovetailError(
            f"{path}: cannot be written: it would hold '{name}', which is no text in UTF-8.",
            hint="Rename the file or folder that is called so.",
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
