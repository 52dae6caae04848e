"""Keep what converters made, by content: the same file with the same options is converted once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from dovetail.environments.catalogue import Environment
from dovetail.environments.location import folder_bytes
from dovetail.environments.process import WORKERS
from dovetail.sdk.download import file_sha256
from dovetail.sdk.location import data_folder

MAX_CACHE_BYTES = 4 << 30


def cache_folder() -> Path:
    """Return the folder of converted models."""
    return data_folder() / "converted"


def cache_key(environment: Environment, files: Iterable[Path], request: Mapping[str, object]) -> str:
    """Return the key of a conversion: the files' contents, the options, the packages and the converter's own text."""
    hasher = hashlib.sha256()
    hasher.update(f"{environment.name} {environment.digest} {json.dumps(request, sort_keys=True)}\n".encode())
    for path in (*sorted(WORKERS.glob("*.py")), *files):
        hasher.update(f"{path.name} {file_sha256(path)}\n".encode())
    return hasher.hexdigest()


def find_converted(key: str) -> Path | None:
    """Return the ONNX file that was kept under a key."""
    path = cache_folder() / f"{key}.onnx"
    try:
        os.utime(path)
    except OSError:
        return None
    return path


def keep_converted(key: str, model: Path) -> Path:
    """Move an ONNX file into the cache and return its place; the longest unused give way when the cache is full."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{key}.{os.getpid()}"
    shutil.move(model, draft)
    path = folder / f"{key}.onnx"
    draft.replace(path)
    _shrink(folder, path)
    return path


def _shrink(folder: Path, newest: Path) -> None:
    held = sorted(((item.stat().st_mtime, item.stat().st_size, item) for item in folder.glob("*.onnx")), reverse=True)
    total = 0
    for _, size, path in held:
        total += size
        if total > MAX_CACHE_BYTES and path != newest:
            with contextlib.suppress(OSError):
                path.unlink()


def converted_bytes() -> int:
    """Return the size of the cache."""
    return folder_bytes(cache_folder())


def clear_cache() -> int:
    """Remove all converted models and return how many bytes they took."""
    size = converted_bytes()
    shutil.rmtree(cache_folder(), ignore_errors=True)
    return size
