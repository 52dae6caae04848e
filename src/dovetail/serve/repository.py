"""The models of a server: bundles in a folder, and those that peers upload."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dovetail.backend.containment import WorkerLimits
from dovetail.bundle.bundle import Bundle
from dovetail.bundle.directory import bundle_from_files, digest_bundle, load_bundle, restore_bundles, save_bundle
from dovetail.errors import BundleError, DovetailError
from dovetail.oip.failures import Reply, RequestRefused
from dovetail.runtime.session import SessionOptions, open_session
from dovetail.serve.limits import ServeLimits
from dovetail.serve.model import ServedModel

VERSION = "1"
"""The only version of a model: a new upload takes the place of the old one."""

_LOG = logging.getLogger("dovetail.serve")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FILE = re.compile(r"file:([^/]*)/(.*)", re.DOTALL)
_PASSING = "upload-"


@dataclass(slots=True)
class RepositoryEntry:
    """A model that the repository knows: loaded, or with the reason why not."""

    name: str
    model: ServedModel | None
    reason: str = ""
    passing: bool = False
    """Kept in memory only, and given up when another model needs the place."""

    @property
    def state(self) -> str:
        """Return the protocol's word."""
        return "READY" if self.model is not None else "UNAVAILABLE"


class Repository:
    """Bundles by name; methods that load or unload block, one at a time, and are called on threads."""

    def __init__(self, folder: Path, limits: ServeLimits) -> None:
        self.folder = folder
        self._limits = limits
        self._entries: dict[str, RepositoryEntry] = {}
        self._changing = threading.Lock()
        self.stopping = False
        self.served: tuple[ServedModel, ...] = ()
        """The models that were loaded when the repository was closed."""

    def load_all(self) -> None:
        """Load every bundle of the folder; one that fails is known as unavailable, with the reason."""
        if not self.folder.is_dir():
            raise BundleError(f"{self.folder}: no such folder.", hint="Give a folder that has bundles in it.")
        if (self.folder / "manifest.json").is_file():
            raise BundleError(f"{self.folder}: is a bundle, not a folder of bundles.", hint="Give the folder above it.")
        for name in restore_bundles(self.folder):
            _LOG.warning("model '%s': an upload did not end; the one before it is back", name)
        for path in sorted(self.folder.iterdir()):
            if _NAME.fullmatch(path.name) and (path / "manifest.json").is_file():
                try:
                    self.load(path.name)
                except DovetailError as error:
                    self._entries[path.name] = RepositoryEntry(path.name, None, str(error))

    def index(self) -> tuple[RepositoryEntry, ...]:
        """Return every model that is known."""
        return tuple(self._entries[name] for name in sorted(self._entries))

    def models(self) -> tuple[ServedModel, ...]:
        """Return the models that are loaded."""
        return tuple(entry.model for entry in self.index() if entry.model is not None)

    def model(self, name: str, version: str = "") -> ServedModel:
        """Return a loaded model; raise RequestRefused where there is none of that name and version."""
        if self.stopping:
            raise RequestRefused(Reply.STOPPING, "the server is stopping.")
        entry = self._entries.get(name)
        if entry is None or version not in ("", VERSION):
            what = f"model '{name[:128]}'" + (f" version '{version[:20]}'" if version else "")
            raise RequestRefused(Reply.NOT_FOUND, f"{what} is unknown.")
        if entry.model is None:
            raise RequestRefused(Reply.NOT_FOUND, f"model '{name}' is not loaded: {entry.reason}")
        return entry.model

    def load(self, name: str) -> None:
        """Load a bundle of the folder, or load it anew; raise BundleError, DeviceError or RequestRefused."""
        self._check_name(name)
        with self._changing:
            if not (self.folder / name).is_dir():
                raise RequestRefused(Reply.NOT_FOUND, f"model '{name}': the folder has no such bundle.")
            self._swap(name, load_bundle(self.folder / name), passing=False)

    def upload(self, name: str, overrides: Mapping[str, bytes], *, passing: bool) -> None:
        """Take the files of a bundle, check them, load it, and only then keep it; the old model serves until then.

        `overrides` maps `file:1/NAME` to contents. Nothing is written of a bundle that is `passing`: its name is
        `upload_name(bundle)`. Raises BundleError, DeviceError, DeviceNotFound or RequestRefused; the old model stays.
        """
        self._check_name(name)
        bundle = bundle_from_files(_files(overrides), f"upload '{name}'")
        if passing != name.startswith(_PASSING) or (passing and name != upload_name(bundle)):
            raise BundleError(
                f"upload '{name}': bundles that are not kept, and only they, are named by their contents."
            )
        with self._changing:
            known = self._entries.get(name)
            if passing and known is not None and known.model is not None:
                return
            self._swap(name, bundle, passing=passing)

    def unload(self, name: str) -> None:
        """Stop serving a model, after the requests that it has; its files stay."""
        with self._changing:
            entry = self._entries.get(name)
            if entry is None:
                raise RequestRefused(Reply.NOT_FOUND, f"model '{name[:128]}' is unknown.")
            self._drop(entry)

    def close(self) -> None:
        """Stop serving all models."""
        self.stopping = True
        with self._changing:
            self.served = self.models()
            for entry in self.index():
                self._drop(entry)

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise RequestRefused(
                Reply.BAD_REQUEST, f"'{name[:80]}' is no name of a model.", hint="Letters, digits, '_', '-' and '.'."
            )

    def _swap(self, name: str, bundle: Bundle, *, passing: bool) -> None:
        """Load a bundle, keep it, and let it take the place of the old model."""
        self._make_room(name)
        # Drivers that are not known to be safe run in processes of their own: what an upload crashes is not the server.
        session = open_session(bundle, SessionOptions(limits=WorkerLimits()))
        try:
            if not passing and not _is_kept(self.folder / name, bundle):
                save_bundle(bundle, self.folder / name)
            model = ServedModel(name, session, digest_bundle(bundle), self._limits)
        except BaseException:
            session.close()
            raise
        old = self._entries.get(name)
        self._entries[name] = RepositoryEntry(name, model, passing=passing)
        if old is not None and old.model is not None:
            old.model.close()

    def _make_room(self, name: str) -> None:
        """Give up the oldest model that nobody asked to keep, where there are too many."""
        loaded = [entry for entry in self._entries.values() if entry.model is not None and entry.name != name]
        if len(loaded) < self._limits.models:
            return
        passing = [entry for entry in loaded if entry.passing]
        if not passing:
            raise RequestRefused(Reply.FULL, f"{len(loaded)} models are loaded.", hint="Unload one.")
        self._drop(min(passing, key=lambda entry: entry.model.statistics.last_ms if entry.model else 0))

    def _drop(self, entry: RepositoryEntry) -> None:
        model = entry.model
        if entry.passing:
            self._entries.pop(entry.name, None)
        else:
            entry.model, entry.reason = None, "unloaded."
        if model is not None:
            model.close()


def upload_name(bundle: Bundle) -> str:
    """Return the name of a bundle that is uploaded and not kept."""
    return _PASSING + digest_bundle(bundle)[:32]


def _is_kept(folder: Path, bundle: Bundle) -> bool:
    """Tell whether a folder has this very bundle."""
    try:
        return folder.is_dir() and digest_bundle(load_bundle(folder)) == digest_bundle(bundle)
    except BundleError:
        return False


def _files(overrides: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return files by name; names that lead anywhere else are refused by what reads a bundle."""
    files: dict[str, bytes] = {}
    for key, content in overrides.items():
        match = _FILE.fullmatch(key)
        if match is None or match[1] != VERSION:
            raise BundleError(f"an upload has 'file:{VERSION}/NAME', not '{key[:80]}'.")
        files[match[2]] = content
    return files
