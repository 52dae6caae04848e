"""Fourier transforms of rows: products with the cosines and the sines of their definition.

`X[k] = sum(x[t] * exp(-2 pi i k t / n))`, k up to n / 2. A Graph has no complex numbers: of a spectrum its source is
kept, and what is read of it, the real or the imaginary part or the size, is computed then. Source: tf.signal.rfft2d.
"""

from __future__ import annotations

import numpy as np

from dovetail.importers.tflite.operators.table import Converters
from dovetail.importers.tflite.scope import Spectrum
from dovetail.importers.tflite.site import Site
from dovetail.ir import DType, TensorType

_CUT = "Cut the model behind its spectrogram, and give it spectrograms."


def _transform(site: Site) -> None:
    lengths = site.known_ints(1, "lengths")
    shape = site.shape(0)
    if len(lengths) != 2 or len(shape) < 2 or lengths[0] != 1 or shape[-2] != 1 or lengths[1] < 1:
        raise site.fail(f"it transforms {list(shape)} along two axes: only rows alone can be said", _CUT)
    bins = lengths[1] // 2 + 1
    site.scope.spectra[site.operator.outputs[0]] = Spectrum(site.read(0), lengths[1], (*shape[:-1], bins))


def _reshaped(site: Site) -> None:
    """Give a spectrum another shape."""
    old, shape = _spectrum(site), site.output().shape
    if np.prod(shape, dtype=np.int64) != np.prod(old.shape, dtype=np.int64):
        raise site.fail(f"a spectrum of shape {list(old.shape)} does not become {list(shape)}", _CUT)
    site.scope.spectra[site.operator.outputs[0]] = Spectrum(old.source, old.length, shape)


def _spectrum(site: Site) -> Spectrum:
    found = site.scope.spectra.get(site.operator.inputs[0]) if site.has(0) else None
    if found is None:
        raise site.fail("its complex numbers come from no transform that can be said", _CUT)
    return found


def _part(site: Site, function: str) -> str:
    """Return the tensor of a part, `[..., n / 2 + 1]`: the function is `cos` or `sin`."""
    spectrum, scope = _spectrum(site), site.scope
    before = scope.types[spectrum.source].shape
    assert before is not None
    width, bins = before[-1], spectrum.length // 2 + 1
    assert isinstance(width, int)
    # Rows that are longer than the transform are cut, shorter ones are padded with zeros.
    turns = np.outer(np.arange(width), np.arange(bins)) % spectrum.length / spectrum.length
    waves = np.cos(2 * np.pi * turns) if function == "cos" else -np.sin(2 * np.pi * turns)
    waves[spectrum.length :] = 0
    name = site.emit(
        "MatMul",
        (spectrum.source, site.real(waves.astype(np.float32), function)),
        TensorType(DType.F32, (*before[:-1], bins)),
        stem=f"{site.stem}/{function}",
    )
    if scope.types[name].shape == spectrum.shape:
        return name
    kind = TensorType(DType.F32, spectrum.shape)
    return site.emit("Reshape", (name, site.number(spectrum.shape, "shape")), kind)


def _real(site: Site) -> None:
    site.finish("Identity", (_part(site, "cos"),))


def _imaginary(site: Site) -> None:
    site.finish("Identity", (_part(site, "sin"),))


def _cast(site: Site) -> None:
    """Keep the real part, as a cast to reals does."""
    if site.output().dtype is not DType.F32:
        raise site.fail(f"it casts complex numbers to {site.output().source_type.lower()}", _CUT)
    _real(site)


def _size(site: Site) -> None:
    parts = (_part(site, "cos"), _part(site, "sin"))
    squares = [site.emit("Mul", (name, name), site.scope.types[name]) for name in parts]
    site.finish("Sqrt", (site.emit("Add", squares, site.scope.types[squares[0]]),))


CONVERTERS: Converters = {"COMPLEX_ABS": _size, "IMAG": _imaginary, "REAL": _real, "RFFT2D": _transform}

OF_SPECTRA: Converters = {
    **CONVERTERS,
    "CAST": _cast,
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), _reshaped),
}
"""Operators whose input 0 is a spectrum."""
