"""Compiled blobs by content: graph with weights and scales, target with driver, backend with version, options."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dovetail.backend.protocols import Backend, Blob, CompileOptions
from dovetail.backend.target import Target
from dovetail.backend.worker import options_to
from dovetail.ir.graph import Graph
from dovetail.ir.storage import graph_to_bytes

_SUFFIX = ".blob"


@dataclass(frozen=True, slots=True)
class BlobCache:
    """A folder of blobs; several processes may share it. The oldest go when it is larger than `most_bytes`."""

    folder: Path
    most_bytes: int = 4 << 30

    def get(self, key: str) -> Blob | None:
        """Return a blob, or None when there is none, or none that is whole."""
        path = self.folder / f"{key}{_SUFFIX}"
        try:
            data = path.read_bytes()
            head, _, payload = data.partition(b"\n")
            facts = json.loads(head)
            if hashlib.sha256(payload).hexdigest() != facts["sha256"]:
                return None
            os.utime(path)
            return Blob(str(facts["format"]), payload)
        except (KeyError, OSError, RecursionError, TypeError, ValueError):
            return None

    def put(self, key: str, blob: Blob) -> None:
        """Keep a blob; a disk that is full or read-only is no reason to fail."""
        facts = {"format": blob.format, "sha256": hashlib.sha256(blob.payload).hexdigest()}
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(json.dumps(facts).encode() + b"\n" + blob.payload)
                os.replace(draft, self.folder / f"{key}{_SUFFIX}")
            except OSError:
                Path(draft).unlink(missing_ok=True)
                raise
            self._trim()

    def _trim(self) -> None:
        entries = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.glob(f"*{_SUFFIX}"))
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries[:-1]:
            if total <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def cache_key(compiler: Backend, target: Target, graph: Graph, options: CompileOptions) -> str:
    """Return the key of a compilation: whatever can change the blob changes it."""
    facts = [compiler.name, compiler.version, target.name, target.mark, options_to(options)]
    head = json.dumps(facts, sort_keys=True).encode()
    return hashlib.sha256(len(head).to_bytes(8, "little") + head + graph_to_bytes(graph)).hexdigest()
