"""The rules of ONNX Runtime's integer kernels, operator by operator and on whole models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from dovetail.backend import registry
from dovetail.backend.arithmetic import ORT, ORT_PAIRS, Accumulator
from dovetail.backend.registry import find_target
from dovetail.backends.reference import plugin, run_graph
from dovetail.importers import load_onnx
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.quantize import load_by_rules
from dovetail.testing.running import run_model
from judges import ort_judge, ort_rules_judge
from judges.trial import Trial, make_trial


@pytest.mark.parametrize("trial", ort_rules_judge.rules_trials(), ids=lambda trial: trial.label)
def test_every_element_is_that_of_onnx_runtime(trial: Trial) -> None:
    found = ort_rules_judge.rules_score(trial)
    assert found.elements >= 200
    assert found.equal == found.elements


def test_the_trials_tell_the_rules_from_exact_arithmetic() -> None:
    trials = [trial for trial in ort_rules_judge.rules_trials() if ".ties" in trial.name]
    told = [trial for trial in trials if ort_judge.judge_trial(trial).share < 1.0]
    assert len(told) > len(trials) / 2


@pytest.mark.parametrize("left", [(4, 1, 1), (1,), ()])
def test_a_number_on_the_left_of_a_sum_goes_into_the_constant(left: tuple[int, ...]) -> None:
    quants = [Quantization((scale,), (zero,)) for scale, zero in ((0.1, 200), (0.0123, 3), (0.2, 90))]
    scales = [replace(quant, scale=(float(np.float32(quant.scale[0])),)) for quant in quants]
    shapes = {"a": left, "b": (2, 4, 9, 8), "y": (2, 4, 9, 8)}
    types = {name: TensorType(DType.U8, shapes[name], quant) for name, quant in zip("aby", scales, strict=True)}
    graph = Graph("sum", (Node("n", "Add", ("a", "b"), ("y",)),), ("a", "b"), ("y",), types, {})
    draw = np.random.default_rng(3)
    feeds = tuple(
        {name: draw.integers(0, 256, shapes[name]).astype(np.uint8) for name in graph.inputs} for _ in range(20)
    )
    trial = replace(make_trial("Add", Precision.U8), graph=graph, inputs=feeds)
    assert ort_rules_judge.rules_score(trial).share == 1.0


@pytest.mark.parametrize("kernel", [(8, 8), (7, 8)])
def test_an_average_of_the_whole_image_is_a_global_one(kernel: tuple[int, int]) -> None:
    quant = Quantization((float(np.float32(0.08723338)),), (0,))
    sizes = {"x": (4, 32, 8, 8), "y": (4, 32, 9 - kernel[0], 9 - kernel[1])}
    types = {name: TensorType(DType.U8, shape, quant) for name, shape in sizes.items()}
    node = Node("n", "AveragePool", ("x",), ("y",), {"kernel_shape": kernel})
    graph = Graph("mean", (node,), ("x",), ("y",), types, {})
    draw = np.random.default_rng(3)
    feeds = tuple({"x": draw.integers(0, 256, sizes["x"]).astype(np.uint8)} for _ in range(20))
    trial = replace(make_trial("AveragePool", Precision.U8), graph=graph, inputs=feeds)
    assert ort_rules_judge.rules_score(trial).share == 1.0


def test_a_model_by_the_rules_names_their_form() -> None:
    kinds = dict.fromkeys("xy", TensorType(DType.F32, (1, 2)))
    graph = Graph("relu", (Node("n", "Relu", ("x",), ("y",)),), ("x",), ("y",), kinds, {})
    for asked, forms in (("reference:ort", ("ort-wide", "ort-pairs")), ("reference:ort-pairs", ("ort-pairs",))):
        model = load_by_rules(graph, asked)
        assert model.rules in {f"reference:{form}" for form in forms}
        assert model.run({"x": np.array([[-1, 2]], np.float32)})["y"].tolist() == [[0, 2]]
        model.close()


def test_the_targets_carry_the_rules() -> None:
    assert find_target("reference:ort-wide").arithmetic == ORT
    assert find_target("reference:ort-pairs").arithmetic == ORT_PAIRS


@pytest.mark.parametrize("form", Accumulator)
def test_the_rules_of_this_machine_are_those_that_were_measured(
    monkeypatch: pytest.MonkeyPatch, form: Accumulator
) -> None:
    monkeypatch.setattr(plugin, "measured_accumulator", lambda: form)
    registry.find_target.cache_clear()
    try:
        assert find_target("reference:ort").name == f"reference:ort-{form.value}"
        assert find_target("reference:ort").arithmetic.accumulator is form
    finally:
        registry.find_target.cache_clear()


def test_the_trials_tell_both_forms_apart() -> None:
    for trial in ort_judge.unsigned_data_trials():
        wide, pairs = (replace(trial, arithmetic=rules).expected() for rules in (ORT, ORT_PAIRS))
        differ = any((one != other).any() for one, other in zip(wide, pairs, strict=True))
        assert differ is ("depthwise" not in trial.name), trial.label


def test_a_product_of_bytes_cast_to_32_bits_is_computed_as_the_operator_that_it_was() -> None:
    left, right = np.array([[255, 255, 9]], np.uint8), np.array([[127], [127], [-5]], np.int8)
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21]>
        g (uint8[1,3] a, int8[3,1] b) => (int32[1,1] y) <uint8 az = {3}, int8 bz = {2}>
        { y = MatMulInteger(a, b, az, bz) }"""
    )
    graph, feed = load_onnx(model), {"a": left, "b": right}
    exact = (left.astype(int) - 3) @ (right.astype(int) - 2)
    assert run_graph(graph, feed, ORT)["y"] == exact
    assert run_graph(graph, feed, ORT_PAIRS)["y"] == exact - (2 * 255 * 127 - 32767)
    here = find_target("reference:ort").arithmetic
    assert run_graph(graph, feed, here)["y"] == run_model(model, feed)[0]


def _session(model: onnx.ModelProto, level: ort.GraphOptimizationLevel) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.slow
@pytest.mark.models
def test_every_tensor_of_shufflenet_is_that_of_onnx_runtime(models: Path) -> None:
    model = onnx.load(models / "shufflenetv2_int8_onnx/shufflenet-v2-12-int8.onnx")
    graph = load_onnx(model)
    names = [name for node in model.graph.node for name in node.output if name in graph.types]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    session = _session(onnx.shape_inference.infer_shapes(model), ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    draw = np.random.default_rng(0)
    for image in (draw.normal(size=(1, 3, 224, 224)), draw.uniform(-2.1, 2.6, (1, 3, 224, 224))):
        feed = {graph.inputs[0]: image.astype(np.float32)}
        found = run_graph(graph, feed, find_target("reference:ort").arithmetic)
        for name, want in zip(names, session.run(names, feed), strict=True):
            np.testing.assert_array_equal(found[name], want, err_msg=name)


class _Samples(CalibrationDataReader):
    """Give random samples to calibrate with."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        draw = np.random.default_rng(0)
        self._samples: Iterator[dict[str, AnyArray]] = iter(
            [{name: draw.uniform(0, 255, shape).astype(np.float32)} for _ in range(3)]
        )

    def get_next(self) -> dict[str, AnyArray] | None:
        return next(self._samples, None)


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("activations", [QuantType.QUInt8, QuantType.QInt8])
def test_a_model_that_onnx_runtime_quantised_gives_its_integers(
    models: Path, tmp_path: Path, form: QuantFormat, activations: QuantType
) -> None:
    model = onnx.load(models / "ic01_resnet8_cifar10/resnet8_float.onnx")
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    for size, wanted in zip(sizes, (1, 32, 32, 3), strict=True):
        size.dim_value = wanted
    source, ready, result = (tmp_path / f"{name}.onnx" for name in ("source", "ready", "result"))
    onnx.save(model, source)
    quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
    samples = _Samples(model.graph.input[0].name, (1, 32, 32, 3))
    types = {"activation_type": activations, "weight_type": QuantType.QInt8}
    quantize_static(str(ready), str(result), samples, quant_format=form, per_channel=True, **types)
    made = onnx.load(result)
    graph = load_onnx(made)
    session = _session(made, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
    draw = np.random.default_rng(1)
    for _ in range(3):
        feed = {graph.inputs[0]: draw.uniform(0, 255, (1, 32, 32, 3)).astype(np.float32)}
        want = session.run(None, feed)[0]
        found = run_graph(graph, feed, find_target("reference:ort").arithmetic)
        np.testing.assert_array_equal(found[graph.outputs[0]], want)
