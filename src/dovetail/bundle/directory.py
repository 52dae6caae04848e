"""Bundles on disk.

    manifest.json     names, types, partitions, checksums (schema 1)
    plan.json         the plan
    partition-0.blob  ... opaque bytes for the backends

A bundle is untrusted: sizes are bounded, names are fixed, links are refused and checksums are compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from dovetail.backend.protocols import Blob
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.errors import BundleError, GraphError, PlanError
from dovetail.ir.parse import parse_type
from dovetail.ir.text import print_type
from dovetail.ir.types import TensorType
from dovetail.plan.plan import plan_from_json
from dovetail.seal import parse_json, sealed, unsealed

SCHEMA = 1
_MANIFEST = "manifest.json"
_PLAN = "plan.json"
_KIND = "dovetail-bundle"
_OWN_NAME = re.compile(r"manifest\.json|plan\.json|partition-\d+\.blob")
_MAX_MANIFEST_BYTES = 256 << 20
_MAX_BLOB_BYTES = 4 << 30
_MAX_PARTITIONS = 100_000


def save_bundle(bundle: Bundle, folder: Path | str) -> None:
    """Write a bundle to a folder, all or nothing; an older bundle there is replaced.

    Raises BundleError when the folder holds anything else or cannot be written: it is left as it was.
    """
    folder = Path(folder)
    # Boards only load bundles, and these two cost half of the import time of the runtime.
    import shutil
    import tempfile

    try:
        if folder.exists():
            _check_replaceable(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        workspace = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        draft, aside = workspace / "new", workspace / "old"
        try:
            draft.mkdir()
            _write(bundle, draft)
            if folder.exists():
                # Moved aside first: a kill between the two leaves one of them whole.
                os.replace(folder, aside)
            os.replace(draft, folder)
        finally:
            if aside.exists() and not folder.exists():
                os.replace(aside, folder)
            shutil.rmtree(workspace, ignore_errors=True)
    except OSError as error:
        raise BundleError(f"{folder}: cannot be written: {error.strerror}.") from error


def restore_bundles(folder: Path) -> tuple[str, ...]:
    """Put bundles back that a kill left aside while they were being replaced, and return their names.

    Nothing else in the folder is touched. Not for a folder that another process writes bundles to.
    """
    restored: list[str] = []
    for workspace in sorted(folder.glob(".*.*")):
        name = workspace.name[1:].rpartition(".")[0]
        aside = workspace / "old"
        if not name or workspace.is_symlink() or aside.is_symlink() or not (aside / _MANIFEST).is_file():
            continue
        if not os.path.lexists(folder / name):
            os.replace(aside, folder / name)
            restored.append(name)
    return tuple(restored)


def _write(bundle: Bundle, folder: Path) -> None:
    for name, content in bundle_to_files(bundle).items():
        (folder / name).write_bytes(content)


def _check_replaceable(folder: Path) -> None:
    """Raise BundleError unless a path is an empty folder or holds a bundle and nothing else.

    Replacing deletes what is there. Many other things have a manifest.json too, and people put files beside a bundle's.
    """
    if folder.is_symlink() or not folder.is_dir():
        raise BundleError(f"{folder}: exists and is not a bundle.", hint="Choose another folder.")
    entries = sorted(folder.iterdir())
    for path in entries:
        if path.is_symlink() or not path.is_file() or not _OWN_NAME.fullmatch(path.name):
            raise BundleError(
                f"{folder}: holds '{path.name}', which is no part of a bundle.",
                hint="Choose another folder, or move it away.",
            )
    if entries and not _says_bundle(folder / _MANIFEST):
        raise BundleError(f"{folder}: exists and is not a bundle.", hint="Choose another folder.")


def _says_bundle(manifest: Path) -> bool:
    try:
        return _read_document(manifest, lambda: _read_bounded(manifest, _MAX_MANIFEST_BYTES)).get("kind") == _KIND
    except BundleError:
        return False


def load_bundle(folder: Path | str) -> Bundle:
    """Return the bundle in a folder; raise BundleError naming what is missing, damaged or unsafe."""
    folder = Path(folder)
    if not folder.is_dir():
        raise BundleError(f"{folder}: no such bundle.", hint="Make one with 'dovetail compile'.")
    return _bundle(folder, lambda name, limit: _read_bounded(folder / name, limit))


def bundle_from_files(files: Mapping[str, bytes], where: str) -> Bundle:
    """Return the bundle whose files these are, by name, without writing any; `where` is what messages call it.

    Raises BundleError naming what is missing, damaged or unsafe, and for a file that is no part of it.
    """

    def read(name: str, limit: int) -> bytes:
        if name not in files:
            raise BundleError(f"{where}/{name}: missing.", hint="Copy the bundle again.")
        if len(files[name]) > limit:
            raise BundleError(f"{where}/{name}: larger than {limit} bytes.")
        return files[name]

    for name in files:
        if not _OWN_NAME.fullmatch(name):
            raise BundleError(f"{where}: holds '{name[:80]}', which is no part of a bundle.")
    bundle = _bundle(Path(where), read)
    known = {_MANIFEST, _PLAN, *map(_blob_name, range(len(bundle.partitions)))}
    extra = sorted(set(files) - known)
    if extra:
        raise BundleError(f"{where}: holds '{extra[0]}', which its manifest does not name.")
    return bundle


def bundle_to_files(bundle: Bundle) -> dict[str, bytes]:
    """Return the files of a bundle by name; the same bundle gives the same bytes."""
    plan_text = bundle.plan.to_json().encode()
    files = {_PLAN: plan_text}
    files |= {_blob_name(index): part.blob.payload for index, part in enumerate(bundle.partitions)}
    document = {
        "schema": SCHEMA,
        "kind": _KIND,
        "name": bundle.name,
        "plan_sha256": hashlib.sha256(plan_text).hexdigest(),
        "inputs": _printed(bundle.inputs),
        "outputs": _printed(bundle.outputs),
        "origins": dict(bundle.origins),
        "partitions": [_entry(part) for part in bundle.partitions],
    }
    return {_MANIFEST: (json.dumps(sealed(document), indent=1, ensure_ascii=False) + "\n").encode(), **files}


def digest_bundle(bundle: Bundle) -> str:
    """Return the SHA-256 of a bundle as hex: that of its manifest, which has the checksums of all other files."""
    return hashlib.sha256(bundle_to_files(bundle)[_MANIFEST]).hexdigest()


_Read = Callable[[str, int], bytes]
"""Takes the name of a file of a bundle and the most bytes that it may have."""


def _bundle(folder: Path, read: _Read) -> Bundle:
    document = _read_document(folder / _MANIFEST, lambda: read(_MANIFEST, _MAX_MANIFEST_BYTES))
    try:
        schema = document["schema"]
        if document["kind"] != _KIND:
            raise BundleError(f"{folder}: not a Dovetail bundle.")
        if schema is True or schema != SCHEMA:
            raise BundleError(
                f"{folder}: made for schema {str(schema)[:20]}; this version reads {SCHEMA}.",
                hint="Compile it again with this version.",
            )
        plan_data = _checked(folder / _PLAN, read(_PLAN, _MAX_MANIFEST_BYTES), _text(document["plan_sha256"]))
        entries = document["partitions"]
        if not isinstance(entries, list) or len(entries) > _MAX_PARTITIONS:
            raise BundleError(f"{folder}: the list of partitions is malformed.")
        bundle = Bundle(
            name=_text(document["name"]),
            plan=plan_from_json(plan_data.decode(), str(folder / _PLAN)),
            inputs=_types(document["inputs"]),
            outputs=_types(document["outputs"]),
            partitions=tuple(_partition(folder, index, entry, read) for index, entry in enumerate(entries)),
            origins={key: _text(value) for key, value in _mapping(document["origins"]).items()},
        )
    except PlanError as error:
        raise BundleError(error.message, hint=error.hint) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, GraphError) as error:
        why = str(error)[:200]
        raise BundleError(f"{folder / _MANIFEST}: malformed: {why}.", hint="Copy the bundle again.") from error
    try:
        bundle.check()
    except BundleError as error:
        raise BundleError(f"{folder}: {error.message}", hint="Compile the model again.") from error
    return bundle


def _entry(part: CompiledPartition) -> dict[str, object]:
    """Return what the manifest says of a partition."""
    return {
        "target": part.target,
        "backend": part.backend,
        "backend_version": part.backend_version,
        "format": part.blob.format,
        "sha256": hashlib.sha256(part.blob.payload).hexdigest(),
        "inputs": list(part.inputs),
        "outputs": list(part.outputs),
        "tensors": _printed(part.tensors),
        "nodes": list(part.nodes),
        "macs": part.macs,
        "units": part.units,
        "predicted_ns": part.predicted_ns,
        "predicted_by": part.predicted_by,
        "engines": dict(part.engines),
        "constant_bytes": part.constant_bytes,
        "alive_bytes": part.alive_bytes,
        "needs": dict(part.needs),
    }


def _partition(folder: Path, index: int, entry: Mapping[str, object], read: _Read) -> CompiledPartition:
    inputs, outputs = entry["inputs"], entry["outputs"]
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise TypeError(f"partition {index}: inputs and outputs are lists")
    name = _blob_name(index)
    payload = _checked(folder / name, read(name, _MAX_BLOB_BYTES), _text(entry["sha256"]))
    part = CompiledPartition(
        target=_text(entry["target"]),
        backend=_text(entry["backend"]),
        backend_version=_text(entry["backend_version"]),
        blob=Blob(_text(entry["format"]), payload),
        inputs=tuple(_text(name) for name in inputs),
        outputs=tuple(_text(name) for name in outputs),
        tensors=_types(entry["tensors"]),
        nodes=_names(entry.get("nodes", [])),
        macs=_count(entry.get("macs"), "macs"),
        units=_count(entry.get("units"), "units"),
        predicted_ns=_duration(entry.get("predicted_ns")),
        predicted_by=_text(entry.get("predicted_by", "")),
        engines={key: _count(value, "engines") or 0 for key, value in _mapping(entry.get("engines", {})).items()},
        constant_bytes=_count(entry.get("constant_bytes"), "constant_bytes"),
        alive_bytes=_count(entry.get("alive_bytes"), "alive_bytes"),
        needs={key: _text(value) for key, value in _mapping(entry.get("needs", {})).items()},
    )
    _ = part.signature
    return part


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("'nodes' is a list")
    return tuple(_text(name) for name in value)


def _count(value: object, key: str) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise TypeError(f"'{key}' is a count")
    return value


def _duration(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise TypeError("'predicted_ns' is a duration")
    return float(value)


def _blob_name(index: int) -> str:
    return f"partition-{index}.blob"


def _printed(types: Mapping[str, TensorType]) -> dict[str, str]:
    return {name: print_type(kind) for name, kind in types.items()}


def _types(value: object) -> dict[str, TensorType]:
    return {name: parse_type(_text(text)) for name, text in _mapping(value).items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text is expected, not {str(value)[:40]!r}")
    return value


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("a table is expected")
    return value


def _read_document(path: Path, read: Callable[[], bytes]) -> Mapping[str, object]:
    try:
        document = _mapping(parse_json(read()))
        return unsealed(dict(document))
    except (ValueError, TypeError, RecursionError) as error:
        raise BundleError(f"{path}: malformed: {error}.", hint="Copy the bundle again.") from error


def _checked(path: Path, data: bytes, sha256: str) -> bytes:
    if hashlib.sha256(data).hexdigest() != sha256:
        raise BundleError(f"{path}: damaged: its checksum differs.", hint="Copy the bundle again.")
    return data


def _read_bounded(path: Path, limit: int) -> bytes:
    if path.is_symlink() or not path.is_file():
        raise BundleError(f"{path}: missing, or not a plain file.", hint="Copy the bundle again.")
    if path.stat().st_size > limit:
        raise BundleError(f"{path}: larger than {limit} bytes.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}.") from error
