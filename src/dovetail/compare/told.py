"""What a board told of its tensors: by taps of a bundle that runs there, or in files that somebody dumped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dovetail.bundle.bundle import Bundle
from dovetail.compare.golden import load_golden
from dovetail.compare.sides import Arrays
from dovetail.data.npy import MAX_SAMPLE_BYTES, read_values
from dovetail.data.npz_rows import open_archive, read_headers, zip_errors
from dovetail.errors import DataError, DeviceError
from dovetail.formats.acuity import parse_tensor_name, read_tensor_file
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.types import TensorType, quantize_array
from dovetail.runtime.place import LoadedModel, Runtime

_SIGNS = re.compile(r"[/: ]")
_ATTACHED = re.compile(r"(?:attach_)?(.+?)(?:_out\d+)?(?:_\d+)?")
_MOST_OFF = 0.02
"""Shares of a step that a real value may lie beside the steps of its tensor: dumps are rounded as text."""


def told_by_board(place: Runtime, bundle: Bundle, samples: Sequence[Arrays]) -> list[Arrays]:
    """Return every tensor that a place tells of each sample: outputs, and all that can be tapped there."""
    if not samples:
        return []
    with place.load(bundle) as model:
        names = [name for name in bundle.tensors if name not in bundle.outputs and name not in bundle.inputs]
        taps = _readable(model, samples[0], names)
        found: list[Arrays] = []
        for sample in samples:
            run = model.run(sample, taps)
            found.append({**run.taps, **run.outputs})
    return found


def _readable(model: LoadedModel, sample: Arrays, names: Sequence[str]) -> list[str]:
    """Return the tensors that can be tapped: all at once where that works, else whichever half does, and so on."""
    if not names:
        return []
    try:
        model.run(sample, names)
    except DeviceError:
        if len(names) == 1:
            return []
        half = len(names) // 2
        return _readable(model, sample, names[:half]) + _readable(model, sample, names[half:])
    return list(names)


def told_in_files(path: Path, graph: Graph) -> list[Arrays]:
    """Return the tensors of a graph that were dumped, sample by sample.

    An `.npz` has arrays `[N, ...]` by the tensors' names, a folder either golden tensors or Acuity's tensor files. Real
    values become stored ones. Raises DataError where nothing fits or a value is no step of its tensor.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder.", hint="Give an .npz, or a folder of .tensor files.")
    if path.is_file():
        return _rows(path, graph, _of_archive(path, graph))
    if (path / "manifest.json").is_file():
        saved = load_golden(path)
        return [_stored(path, graph, saved.read(sample)) for sample in saved.samples]
    return _rows(path, graph, _of_acuity(path, graph))


def _rows(path: Path, graph: Graph, found: Iterator[tuple[int, str, AnyArray]]) -> list[Arrays]:
    samples: dict[int, dict[str, AnyArray]] = {}
    for index, name, array in found:
        samples.setdefault(index, {})[name] = array
    if not samples or sorted(samples) != list(range(len(samples))):
        raise DataError(f"{path}: no tensor of the model is in it.", hint="Name arrays as the model's tensors.")
    return [_stored(path, graph, samples[index]) for index in range(len(samples))]


def _stored(path: Path, graph: Graph, arrays: Mapping[str, AnyArray]) -> Arrays:
    kinds = graph.types
    return {
        name: _as_stored(f"{path}: '{name}'", array, kinds[name]) for name, array in arrays.items() if name in kinds
    }


def _as_stored(where: str, array: AnyArray, kind: TensorType) -> AnyArray:
    """Return an array as the board stores it; raise DataError where its real values lie between steps."""
    shape = kind.static_shape
    if shape is not None and array.size == int(np.prod(shape, dtype=np.int64)):
        array = array.reshape(shape)
    if array.dtype == kind.dtype.carrier:
        return array
    if kind.quant is None:
        return array.astype(kind.dtype.carrier)
    if array.dtype.kind in "iu":
        low, high = kind.dtype.integer_range
        if array.size and (int(array.min()) < low or int(array.max()) > high):
            raise DataError(f"{where}: values outside of {kind.dtype.value}.")
        return array.astype(kind.dtype.carrier)
    stored = quantize_array(array, kind.dtype, kind.quant)
    scale, zero = np.asarray(kind.quant.scale, np.float64), np.asarray(kind.quant.zero_point, np.float64)
    if scale.size == 1 and array.size:
        off = float(np.abs(array.astype(np.float64) / scale + zero - stored).max())
        if off > _MOST_OFF:
            raise DataError(
                f"{where}: a value lies {off:.2f} steps beside those of its scale {float(scale.flat[0]):g}.",
                hint="Was it dumped from a network with these ranges?",
            )
    return stored


def _of_archive(path: Path, graph: Graph) -> Iterator[tuple[int, str, AnyArray]]:
    headers = read_headers(path)
    if sum(header.size_bytes for header in headers.values()) > MAX_SAMPLE_BYTES:
        raise DataError(f"{path}: more than {MAX_SAMPLE_BYTES} bytes.", hint="Dump fewer samples.")
    with open_archive(path) as archive, zip_errors(str(path)):
        for name, header in headers.items():
            if name not in graph.types:
                continue
            with archive.open(f"{name}.npy") as stream:
                stream.seek(header.offset)
                array = read_values(stream, header, f"{path}: '{name}'")
            single = array.shape == graph.types[name].static_shape
            for index, row in enumerate([array] if single else array):
                yield index, name, np.array(row)


def _of_acuity(folder: Path, graph: Graph) -> Iterator[tuple[int, str, AnyArray]]:
    names: dict[str, str] = {}
    for tensor in graph.types:
        if tensor not in graph.constants:
            for known in (tensor, graph.origin_of(tensor)):
                names.setdefault(_SIGNS.sub("_", known), tensor)
    for path in sorted(folder.iterdir()):
        told = parse_tensor_name(path.name)
        if told is None:
            continue
        shorter = _ATTACHED.fullmatch(told.layer)
        found = names.get(told.layer) or (names.get(shorter[1]) if shorter else None)
        if found is None:
            continue
        array = read_tensor_file(path)
        if told.quantised:
            array = np.rint(array).astype(np.int64)
        if told.layout == "nhwc" and array.ndim == 4:
            array = np.moveaxis(array, -1, 1)
        yield max(told.iteration, 0), found, array
