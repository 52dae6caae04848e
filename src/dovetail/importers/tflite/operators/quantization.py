"""Borders between number formats."""

from __future__ import annotations

import numpy as np

from dovetail.importers.tflite.operators.table import Converters
from dovetail.importers.tflite.site import Site
from dovetail.importers.tflite.values import real_value
from dovetail.ir import DType, Quantization, TensorType
from dovetail.ir.codes import ONNX_CODES


def _quantize(site: Site) -> None:
    form = site.form(0)
    if not site.output().is_quantized:
        raise site.fail("its output has no scale")
    op = "Requantize" if site.tensor(0).is_quantized else "QuantizeLinear"
    site.finish(op, (site.read(0, form),), None, form)


def _dequantize(site: Site) -> None:
    """Make floats; a constant becomes a float constant at once (float16 and weight-only models)."""
    tensor, form = site.tensor(0), site.form(0)
    value = site.value(0)
    if value is not None and site.result_type().dtype is DType.F32:
        quant = tensor.quant if tensor.is_quantized else None
        name = site.scope.real(site.scope.prefix + site.output().name, real_value(value, quant))
        site.scope.bind(site.operator.outputs[0], name)
    elif tensor.is_quantized:
        site.finish("DequantizeLinear", (site.read(0, form),), None, form)
    else:
        site.finish("Cast", (site.read(0, form),), {"to": ONNX_CODES[site.result_type().dtype]}, form)


def _densify(site: Site) -> None:
    """Pass on what was read whole; as a constant where it is one."""
    if site.value(0) is not None:
        site.scope.bind(site.operator.outputs[0], site.read(0))
    else:
        site.finish("Identity", (site.read(0, site.form(0)),), None, site.form(0))


def _fake_quant(site: Site) -> None:
    """Quantise to `NumBits` and back; the range is nudged so that 0 is one of its steps."""
    options = site.operator.options
    bits, low, high = options.integer("NumBits"), options.number("Min"), options.number("Max")
    lowest, highest = int(options.flag("NarrowRange")), 2**bits - 1
    if bits not in (8, 16) or not low < high or not np.isfinite([low, high]).all() or low > 0 or high < 0:
        raise site.fail(f"it quantises [{low}, {high}] to {bits} bits")
    scale = float(np.float32((high - low) / (highest - lowest)))
    zero = int(np.clip(np.floor(lowest - low / scale + 0.5), lowest, highest))
    form = site.form(0)
    x = site.read(0, form)
    bounds = site.real((lowest - zero) * scale, "min"), site.real((highest - zero) * scale, "max")
    kind = site.scope.types[x]
    clipped = site.emit("Clip", (x, *bounds), kind)
    stored = TensorType(DType.U8 if bits == 8 else DType.U16, kind.shape, Quantization((scale,), (zero,)))
    steps = site.emit("QuantizeLinear", (clipped,), stored)
    site.finish("DequantizeLinear", (steps,), None, form)


CONVERTERS: Converters = {
    "DENSIFY": _densify,
    "DEQUANTIZE": _dequantize,
    "FAKE_QUANT": _fake_quant,
    "QUANTIZE": _quantize,
}
