"""Integer arithmetic against TFLite's reference kernels and ONNX Runtime's integer kernels.

Every row that is not named here must agree in every element. The floors are the measured shares, cut to four digits;
`benchmarks/integer_table.py` prints the table and says why each differs.
"""

from __future__ import annotations

import pytest

from judges import ort_judge, tflite_judge
from judges.trial import Score, Trial

FLOORS = {
    ("onnxruntime", "AveragePool.include_pad i8"): (0.8047, 65),
    ("onnxruntime", "AveragePool.include_pad u8"): (0.8047, 65),
    ("onnxruntime", "Softmax i8"): (0.9868, 1),
    ("onnxruntime", "Softmax u8"): (0.9868, 1),
    ("tflite-ref", "Add w8a16"): (0.9999, 1),
    ("tflite-ref", "Add.broadcast w8a16"): (0.9999, 1),
    ("tflite-ref", "AveragePool.same_scale i8"): (0.8872, 1),
    ("tflite-ref", "AveragePool.same_scale u8"): (0.8807, 1),
    ("tflite-ref", "AveragePool.same_scale w8a16"): (0.8852, 1),
    ("tflite-ref", "Conv.depthwise i8pc"): (0.9975, 1),
    ("tflite-ref", "Conv.depthwise u8"): (0.9972, 1),
    ("tflite-ref", "Conv.depthwise w8a16"): (0.9005, 1),
    ("tflite-ref", "Conv.dilated i8pc"): (0.9986, 1),
    ("tflite-ref", "Conv.dilated u8"): (0.9994, 1),
    ("tflite-ref", "Conv.dilated w8a16"): (0.9350, 1),
    ("tflite-ref", "Conv.no_bias i8pc"): (0.9993, 1),
    ("tflite-ref", "Conv.no_bias u8"): (0.9992, 1),
    ("tflite-ref", "Conv.no_bias w8a16"): (0.9088, 1),
    ("tflite-ref", "Conv.pointwise i8pc"): (0.9982, 1),
    ("tflite-ref", "Conv.pointwise u8"): (0.9981, 1),
    ("tflite-ref", "Conv.pointwise w8a16"): (0.9109, 1),
    ("tflite-ref", "Conv.same_upper i8pc"): (0.9993, 1),
    ("tflite-ref", "Conv.same_upper u8"): (0.9987, 1),
    ("tflite-ref", "Conv.same_upper w8a16"): (0.8810, 1),
    ("tflite-ref", "HardSwish i8"): (0.9960, 1),
    ("tflite-ref", "LeakyRelu i8"): (0.9573, 1),
    ("tflite-ref", "Mul i8"): (0.9478, 1),
    ("tflite-ref", "Mul u8"): (0.9478, 1),
    ("tflite-ref", "Mul w8a16"): (0.9999, 1),
    ("tflite-ref", "QuantizeLinear w8a16"): (0.9991, 1),
    ("tflite-ref", "ReduceMean i8"): (0.8857, 1),
    ("tflite-ref", "ReduceMean.channels i8"): (0.7628, 1),
}


def _check(found: Score) -> None:
    share, lsb = FLOORS.get((found.judge, found.label), (1.0, 0))
    assert found.elements >= 200
    assert found.share >= share, f"{found.label}: {found.elements - found.equal} of {found.elements} differ"
    assert found.max_lsb <= lsb


@pytest.mark.parametrize("trial", tflite_judge.trials(), ids=lambda trial: trial.label)
def test_agrees_with_tflite(trial: Trial) -> None:
    _check(tflite_judge.judge_trial(trial))


@pytest.mark.parametrize("trial", tflite_judge.rounded_twice(), ids=lambda trial: trial.label)
def test_accumulators_rounded_as_tflite_does_agree_with_it_everywhere(trial: Trial) -> None:
    _check(tflite_judge.judge_accumulators(trial))


@pytest.mark.parametrize("trial", ort_judge.trials(), ids=lambda trial: trial.label)
def test_agrees_with_onnx_runtime(trial: Trial) -> None:
    _check(ort_judge.judge_trial(trial))
