"""TFLite's integer LSTM as models of one operator, in every form that its kernel has and the importer reads."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dovetail.ir import AnyArray, DType, Quantization
from judges.tflite_cases import Input, LiteCase, Options, Output, constant, stored, unshaped_case, with_shapes
from judges.tflite_model import LiteTensor

_STATE, _MEMORY, _INPUTS = 18, 19, 24


@dataclass(frozen=True, slots=True)
class _Form:
    """Say what an LSTM has; sizes are those of its data `[batch, times, width]` and of its state."""

    label: str
    batch: int = 2
    times: int = 12
    width: int = 7
    hidden: int = 9
    coupled: bool = False
    peepholes: bool = False
    cell_exponent: int = -12
    clip: float = 0.0
    state_zero: int = -3
    time_major: bool = False
    wide: float = 1.0
    """How many times the usual weights are."""


FORMS = (
    _Form("plain"),
    _Form("one", batch=1),
    _Form("time_major", time_major=True),
    _Form("coupled", coupled=True),
    _Form("peepholes", peepholes=True),
    _Form("coupled.peepholes", coupled=True, peepholes=True),
    _Form("clip", clip=0.75),
    _Form("clip.wide", clip=10.0, wide=4.0),
    _Form("cell11", cell_exponent=-11),
    _Form("cell9.wide", cell_exponent=-9, wide=6.0, times=40),
    _Form("zero_state", state_zero=0, hidden=20, width=28, times=28),
)


def lstm_cases() -> Iterator[LiteCase]:
    """Yield a case of every form."""
    for form in FORMS:
        yield _case(form)


def _quant(scale: float, zero: int = 0) -> Quantization:
    return Quantization((float(np.float32(scale)),), (zero,))


def _case(form: _Form) -> LiteCase:
    draw = np.random.default_rng(zlib.crc32(form.label.encode()))
    lead = (form.times, form.batch) if form.time_major else (form.batch, form.times)
    state = _quant(1 / 128, form.state_zero)
    inputs: list[Input | None] = [None] * _INPUTS
    inputs[0] = stored(DType.I8, 0.02, 5, *lead, form.width)
    for gate in range(int(form.coupled), 4):
        w_scale, r_scale = (float(np.float32(form.wide * item)) for item in draw.uniform(0.003, 0.009, 2))
        inputs[1 + gate] = _weight(draw, (form.hidden, form.width), w_scale)
        inputs[5 + gate] = _weight(draw, (form.hidden, form.hidden), r_scale)
        inputs[12 + gate] = constant(draw.integers(-4000, 4000, form.hidden), DType.I32, _quant(0.02 * w_scale))
        if form.peepholes and gate != 2:
            place = 9 + (gate if gate < 2 else 2)
            inputs[place] = constant(draw.integers(-32767, 32768, form.hidden), DType.I16, _quant(2e-5 * (1 + gate)))
    inputs[_STATE] = Input((form.batch, form.hidden), DType.I8, state)
    inputs[_MEMORY] = Input((form.batch, form.hidden), DType.I16, _quant(2.0**form.cell_exponent))
    fields: dict[str, object] = {"fusedActivationFunction": 4, "cellClip": form.clip, "timeMajor": form.time_major}
    options: Options = ("UnidirectionalSequenceLSTMOptions", fields)
    label = f"UNIDIRECTIONAL_SEQUENCE_LSTM.i8.{form.label}"
    made = unshaped_case(label, inputs, [Output(DType.I8, state)], options, (_STATE, _MEMORY))
    between = [LiteTensor(f"between{index}", DType.F32, (0,)) for index in range(4)]
    hidden = LiteTensor("between4", DType.I8, (0,), state)
    return with_shapes(replace(made, operator=replace(made.operator, intermediates=(*between, hidden))))


def _weight(draw: np.random.Generator, shape: tuple[int, ...], scale: float) -> Input:
    value: AnyArray = draw.integers(-127, 128, shape)
    return constant(value, DType.I8, _quant(scale))
