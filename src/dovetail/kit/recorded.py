"""What a board brought back, as a place to run bundles: it answers what was asked there, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from dovetail.backend.protocols import Signature
from dovetail.bundle.bundle import Bundle
from dovetail.bundle.directory import digest_bundle
from dovetail.data.npy import read_values
from dovetail.data.npz_rows import open_archive, read_headers, zip_errors
from dovetail.errors import BundleError, DataError, DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.runtime.checks import check_inputs, check_outputs
from dovetail.runtime.memory import ProcessMemory
from dovetail.runtime.place import BackendPresence, LoadedModel, Runtime
from dovetail.runtime.profiling import ProfileOptions, RunProfile
from dovetail.runtime.record import Mark, Run
from dovetail.runtime.recording import OUTPUTS, RESULT, SCHEMA, feed_digest

_MOST_BYTES = 256 << 20
_MOST_NS = 1 << 62
_AGAIN = "Run the kit again, and copy the whole folder."


def is_result(folder: Path) -> bool:
    """Tell whether a folder is what a kit made."""
    return (folder / RESULT).is_file()


class RecordedRuntime(Runtime):
    """The folder that a kit made on a board; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def devices(self) -> tuple[BackendPresence, ...]:
        """Return the devices that ran the bundle."""
        told = self.document.get("devices")
        names = tuple(map(str, told)) if isinstance(told, list) else ()
        return (BackendPresence("board", True, "as the kit recorded it", "", tuple(dict.fromkeys(names))),)

    def load(self, bundle: Bundle) -> RecordedModel:
        """Return the recorded runs of a bundle; raise BundleError where another one was run."""
        if self.document.get("bundle") != digest_bundle(bundle):
            raise BundleError(
                f"{self.folder}: these are results of another bundle than '{bundle.name}'.",
                hint="Give the bundle that the kit was made of.",
            )
        return RecordedModel(self.folder, bundle, self.document)

    def close(self) -> None:
        """Do nothing."""

    def __exit__(self, *exception: object) -> None:
        self.close()

    @cached_property
    def document(self) -> Mapping[str, object]:
        """Return what `result.json` says; raise DataError where it is damaged."""
        path = self.folder / RESULT
        try:
            if path.stat().st_size > _MOST_BYTES:
                raise DataError(f"{path}: larger than {_MOST_BYTES} bytes.")
            document = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path}: cannot be read: {error}.", hint=_AGAIN) from error
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise DataError(f"{path}: not a result of this version ({SCHEMA}).", hint=_AGAIN)
        return document


class RecordedModel(LoadedModel):
    """The runs of one bundle on a board that is not reached any more."""

    def __init__(self, folder: Path, bundle: Bundle, document: Mapping[str, object]) -> None:
        self.bundle = bundle
        self._folder = folder
        self._types = bundle.tensors
        try:
            self._devices = _texts(document["devices"])
            samples, self._runs = _texts(document["samples"]), _list(document["runs"])
            self._taps = _texts(document["taps"])
            self._profile = document["profile"]
            self._peak = document.get("peak_bytes")
            if len(self._devices) != len(bundle.partitions) or len(self._runs) != len(samples):
                raise ValueError("its counts differ")
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(folder, error) from error
        self._index = {digest: index for index, digest in enumerate(samples)}

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the device of every partition."""
        return self._devices

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Run:
        """Return what the board gave for these inputs; raise DeviceError for inputs and taps that it did not run."""
        check_inputs(self.bundle.inputs, inputs)
        index = self._index.get(feed_digest(inputs))
        if index is None:
            raise DeviceError(
                f"{self._folder}: the board has not run this sample.",
                hint="Give the samples that the kit was made with.",
            )
        known = {*self._taps, *self.bundle.outputs}
        for name in taps:
            if name not in known:
                raise DeviceError(
                    f"{self._folder}: the board has not told the tensor '{name}'.",
                    hint="Make a kit that brings every tensor back.",
                )
        arrays = {name: self._value(name, index) for name in dict.fromkeys((*self.bundle.outputs, *taps))}
        outputs = {name: arrays[name] for name in self.bundle.outputs}
        check_outputs(str(self._folder), Signature({}, {name: self._types[name] for name in arrays}), arrays)
        elapsed, marks = self._times(self._runs[index])
        return Run(outputs, {name: arrays[name] for name in taps}, self._types, marks, self._names, 0, elapsed)

    def profile(
        self,
        feeds: Sequence[Mapping[str, AnyArray]],
        options: ProfileOptions,
        advance: Callable[[int], None] = lambda done: None,
    ) -> RunProfile:
        """Return the profile that the board made, with its own count of runs; raise DeviceError where it made none."""
        if not isinstance(self._profile, Mapping):
            raise DeviceError(f"{self._folder}: the board has not timed the model.", hint="Make a kit that times it.")
        try:
            timed = [self._times(one) for one in _list(self._profile["runs"])]
            starts = tuple(map(_count, _list(self._profile["starts_ns"])))
            together = _count(self._profile["together_ns"])
            memory = None if self._peak is None else ProcessMemory(None, _count(self._peak))
            if not timed or len(starts) != len(timed) or not together:
                raise ValueError("its counts differ")
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self._folder, error) from error
        runs = tuple(Run({}, {}, self._types, marks, self._names, 0, elapsed) for elapsed, marks in timed)
        advance(2 * len(runs))
        return RunProfile(runs, starts, together, self._devices, memory)

    def close(self) -> None:
        """Do nothing."""

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def _names(self) -> tuple[tuple[str, str], ...]:
        return tuple((part.target, device) for part, device in zip(self.bundle.partitions, self._devices, strict=True))

    @cached_property
    def _arrays(self) -> Mapping[str, AnyArray]:
        path = self._folder / OUTPUTS
        if not path.is_file():
            raise DataError(f"{path}: missing.", hint=_AGAIN)
        headers = read_headers(path)
        found: dict[str, AnyArray] = {}
        with open_archive(path) as archive, zip_errors(str(path)):
            for name, header in headers.items():
                with archive.open(f"{name}.npy") as stream:
                    stream.seek(header.offset)
                    found[name] = read_values(stream, header, f"{path}: '{name}'")
        return found

    def _value(self, name: str, index: int) -> AnyArray:
        arrays = self._arrays
        whole, single = arrays.get(name), arrays.get(f"{name}@{index}")
        if single is None and (whole is None or whole.ndim < 1 or len(whole) != len(self._runs)):
            raise DataError(f"{self._folder / OUTPUTS}: no '{name}' of sample {index}.", hint=_AGAIN)
        value = np.asarray(single if whole is None else whole[index])
        return np.ascontiguousarray(value).reshape(value.shape)

    def _times(self, told: object) -> tuple[int, Sequence[Mark]]:
        try:
            if not isinstance(told, Mapping):
                raise TypeError("no times")
            marks: list[Mark] = []
            for one in _list(told["marks"]):
                index, start, elapsed, moved = map(_count, _list(one))
                if index >= len(self.bundle.partitions):
                    raise ValueError("it times partitions that the bundle has not")
                marks.append((index, start, elapsed, moved))
            return _count(told["elapsed_ns"]), marks
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self._folder, error) from error


def _damaged(folder: Path, error: Exception) -> DataError:
    return DataError(f"{folder / RESULT}: malformed: {error}.", hint=_AGAIN)


def _list(value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise TypeError("a list is expected")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, _list(value)))


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST_NS:
        raise ValueError("a time in nanoseconds is expected")
    return value
