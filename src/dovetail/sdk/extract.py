"""Take the SDK out of an archive: only the wanted folder, nothing outside, nothing too large."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from dovetail.errors import DovetailError
from dovetail.sdk.pinned import PinnedWheel

MAX_FILES = 5_000
MAX_FILE_BYTES = 64 << 20
MAX_TOTAL_BYTES = 512 << 20
MAX_ARCHIVE_BYTES = 128 << 20
_WANTED = ("include/", "lib/", "VERSION")
_UNWANTED = ("include/HAL/", "include/jpeg/", "lib/libjpeg.a", "lib/libOpenCL")
_TIMVX = ("include/tim-vx/", "lib/libtim-vx.so")
"""`include/CL` is kept: the simulator compiles its shader kernels with these headers at run time."""


_BAD_ARCHIVE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    IndexError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)
"""What the libraries raise for archives that are damaged or of a kind that they do not know."""


def extract_sdk(wheel: PinnedWheel, source: Path, target: Path) -> None:
    """Fill `target` with `include` and `lib` of the SDK in a wheel or tar archive; raise DovetailError."""
    try:
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                facts = archive.getinfo(wheel.archive)
                if facts.file_size > MAX_ARCHIVE_BYTES:
                    raise DovetailError(f"{source.name}: {wheel.archive} is larger than {MAX_ARCHIVE_BYTES} bytes.")
                with archive.open(facts) as stream:
                    _extract_tar(stream, wheel, target)
        else:
            with source.open("rb") as stream:
                _extract_tar(stream, wheel, target)
    except KeyError as error:
        raise DovetailError(f"{source.name} holds no {wheel.archive}.", hint=_HINT) from error
    except _BAD_ARCHIVE as error:
        raise DovetailError(f"{source.name} cannot be unpacked: {error}.", hint=_HINT) from error
    if not (target / "include").is_dir() or not (target / "lib").is_dir():
        raise DovetailError(f"{source.name} holds no folder {wheel.sdk_folder}.", hint=_HINT)


_HINT = "Give the wheel of acuitylite for cp310 in the version that is asked for, or the vsi_sdk.tar.gz inside it."


def _extract_tar(stream: IO[bytes], wheel: PinnedWheel, target: Path) -> None:
    total = files = 0
    links: list[tuple[Path, str]] = []
    with tarfile.open(fileobj=stream, mode="r|gz") as archive:
        for member, name in _wanted(archive, wheel):
            place = target / name
            if member.issym():
                links.append((place, member.linkname))
                continue
            total, files = total + member.size, files + 1
            if member.size > MAX_FILE_BYTES or total > MAX_TOTAL_BYTES or files > MAX_FILES:
                raise DovetailError(f"the archive is too large at {member.name!r}.", hint=_HINT)
            place.parent.mkdir(parents=True, exist_ok=True)
            source = archive.extractfile(member)
            if source is None:
                raise DovetailError(f"{member.name!r} in the archive cannot be read.", hint=_HINT)
            with source, place.open("wb") as sink:
                shutil.copyfileobj(source, sink)
    for place, aim in links:
        # Every link of the SDK names a library beside it.
        if PurePosixPath(aim).name != aim or not (place.parent / aim).is_file():
            raise DovetailError(f"link {place.name!r} in the archive leads to {aim!r}.", hint=_HINT)
        place.unlink(missing_ok=True)
        os.symlink(aim, place)


def _wanted(archive: tarfile.TarFile, wheel: PinnedWheel) -> Iterator[tuple[tarfile.TarInfo, str]]:
    """Yield the members to keep with their names below the folder; raise for names that lead elsewhere."""
    prefix = wheel.sdk_folder.rstrip("/") + "/"
    unwanted = _UNWANTED if wheel.has_timvx else (*_UNWANTED, *_TIMVX)
    for member in archive:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            raise DovetailError(f"{member.name!r} in the archive leads outside.", hint=_HINT)
        name = str(path).removeprefix(prefix)
        if name == str(path) or not name.startswith(_WANTED) or name.startswith(unwanted):
            continue
        if member.isdir():
            continue
        if not (member.isreg() or member.issym()):
            raise DovetailError(f"{member.name!r} in the archive is neither a file nor a link.", hint=_HINT)
        # TIM-VX's own installation has its headers in include/tim.
        yield member, name.replace("include/tim-vx/tim/", "include/tim/", 1)
