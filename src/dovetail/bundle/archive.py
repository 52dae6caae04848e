"""Bundles as one file, to send and to keep: an uncompressed zip of the folder, the same bytes for the same bundle."""

from __future__ import annotations

from pathlib import Path

from dovetail.bundle.bundle import Bundle
from dovetail.bundle.directory import load_bundle, save_bundle
from dovetail.errors import BundleError

_MAX_BYTES = 8 << 30
_MAX_FILES = 100_002
_NEVER = (1980, 1, 1, 0, 0, 0)


def export_bundle(bundle: Bundle, path: Path) -> None:
    """Write a bundle to one file; raise BundleError when it cannot be written or another kind of file is there."""
    # A board that only loads folders need not pay for these.
    import os
    import tempfile
    import zipfile

    if path.exists() and not _is_bundle_file(path):
        raise BundleError(f"{path}: exists and is not a bundle.", hint="Choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name[:60]}.", dir=path.parent) as folder:
            whole = Path(folder) / "bundle"
            save_bundle(bundle, whole)
            draft = Path(folder) / "draft"
            with zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as archive:
                for file in sorted(whole.iterdir()):
                    archive.writestr(zipfile.ZipInfo(file.name, _NEVER), file.read_bytes())
            os.replace(draft, path)
    except OSError as error:
        raise BundleError(f"{path}: cannot be written: {error.strerror}.", hint="Choose another place.") from error


def _is_bundle_file(path: Path) -> bool:
    """Tell whether a file is a bundle: samples of numpy are archives of the same kind."""
    import zipfile

    try:
        # A pipe or a device is no file to look into.
        with zipfile.ZipFile(path if path.is_file() else "") as archive:
            return b'"kind": "dovetail-bundle"' in archive.read("manifest.json")
    except (KeyError, OSError, RuntimeError, ValueError, zipfile.BadZipFile):
        return False


def import_bundle(path: Path) -> Bundle:
    """Return the bundle in a file; raise BundleError naming what is missing, damaged or unsafe."""
    import tempfile
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
            entries = archive.infolist()
            if len(entries) > _MAX_FILES or sum(entry.file_size for entry in entries) > _MAX_BYTES:
                raise BundleError(f"{path}: larger than any bundle.")
            for entry in entries:
                # Names are those of the folder and nothing else: no path leads out of it.
                if entry.is_dir() or Path(entry.filename).name != entry.filename or entry.filename.startswith("."):
                    raise BundleError(f"{path}: holds '{entry.filename[:80]}', which is no part of a bundle.")
                (Path(folder) / entry.filename).write_bytes(archive.read(entry))
            return _load(Path(folder), path)
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}.", hint="Check the path.") from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        IndexError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as error:
        raise BundleError(f"{path}: not a bundle, or damaged: {error}.", hint="Copy it again.") from error


def _load(folder: Path, path: Path) -> Bundle:
    try:
        return load_bundle(folder)
    except BundleError as error:
        raise BundleError(error.message.replace(str(folder), str(path)), hint=error.hint) from error
