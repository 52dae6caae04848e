"""The fast simulation stays a float model, follows the target and is cheap to build again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import work

from dovetail.backend.protocols import CompileOptions, Fidelity
from dovetail.backends.npusim import backend
from dovetail.backends.npusim.fast import FloatConstants, build_model
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.testing.agreement import agreement, load_on
from dovetail.testing.cases import CASES, quantized

FAST, EXACTLY = CompileOptions(Fidelity.FAST), CompileOptions(Fidelity.EXACT)
BY_NAME = {profile.name: profile for profile in VSI_PROFILES}


def chain(depth: int = 4, *, per_channel: bool = True) -> Graph:
    """Return x -> Quantize -> (Conv -> Relu) * depth -> Dequantize, with multipliers whose low bits matter."""
    generator = np.random.default_rng(3)
    quant = Quantization((float(np.float32(0.0237)),), (-9,))
    types = {"x": TensorType(DType.F32, ("N", 8, 6, 6)), "y": TensorType(DType.F32, ("N", 8, 6, 6))}
    stored = TensorType(DType.I8, ("N", 8, 6, 6), quant)
    types["t0"] = stored
    nodes = [Node("q", "QuantizeLinear", ("x",), ("t0",))]
    constants: dict[str, np.ndarray] = {}
    for index in range(depth):
        weight = generator.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8)
        scales = tuple(float(np.float32(scale)) for scale in generator.uniform(0.0008, 0.0016, 8))
        constants[f"w{index}"] = weight
        wide = Quantization(scales, (0,) * 8, 0) if per_channel else Quantization(scales[:1], (0,))
        types[f"w{index}"] = TensorType(DType.I8, (8, 8, 3, 3), wide)
        types[f"c{index}"] = types[f"t{index + 1}"] = stored
        pads = {"pads": (1, 1, 1, 1)}
        nodes.append(Node(f"conv{index}", "Conv", (f"t{index}", f"w{index}"), (f"c{index}",), pads))
        nodes.append(Node(f"relu{index}", "Relu", (f"c{index}",), (f"t{index + 1}",)))
    nodes.append(Node("d", "DequantizeLinear", (f"t{depth}",), ("y",)))
    return Graph("chain", tuple(nodes), ("x",), ("y",), types, constants)


SAMPLES = tuple({"x": np.random.default_rng(seed).normal(size=(2, 8, 6, 6)).astype(np.float32)} for seed in range(3))


@pytest.mark.parametrize("target", VSI_PROFILES, ids=lambda target: target.name)
def test_a_chain_equals_the_exact_simulation(target: object) -> None:
    profile = BY_NAME[target.name]  # type: ignore[attr-defined]
    graph = chain()
    fast = load_on(backend, graph, profile, FAST)
    if profile.generation is Generation.VIP9000_PLUS:
        # Its conversions have floats of 21 bits, which only the exact simulation follows.
        exact = load_on(backend, graph, profile, EXACTLY)
        steps = [np.rint((one.run(sample)["y"]) / 0.0237) for sample in SAMPLES for one in (fast, exact)]
        apart = [np.abs(first - second) for first, second in zip(steps[::2], steps[1::2], strict=True)]
        assert max(difference.max() for difference in apart) <= 1
        assert np.mean([(difference == 0).mean() for difference in apart]) >= 0.98
        return
    result = agreement(fast, load_on(backend, graph, profile, EXACTLY), SAMPLES)
    assert result.share >= 0.998, result


def test_the_cut_multiplier_of_old_parts_is_followed() -> None:
    # Old parts compute weights with a scale per channel in a shader, which cuts nothing.
    graph, target = chain(per_channel=False), BY_NAME["vsi:a311d"]
    exact = load_on(backend, graph, target, EXACTLY)
    plain = replace(target, arithmetic=replace(target.arithmetic, multiplier_bits=None))
    with_cut = agreement(load_on(backend, graph, target, FAST), exact, SAMPLES)
    without = agreement(load_on(backend, graph, plain, FAST), exact, SAMPLES)
    assert with_cut.share > without.share


def test_onnx_runtime_keeps_it_in_float(tmp_path: Path) -> None:
    model = build_model(chain(), BY_NAME["vsi:v853"], FloatConstants(), 1)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    found = [node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node]
    assert [op for op in found if "QLinear" in op or "Integer" in op] == []
    assert sum(op in ("Conv", "FusedConv") for op in found) == 4
    assert "Relu" not in found, "the clamp is fused into its convolution"
    assert found.count("QuantizeLinear") == 5


def test_weights_carry_no_dequantize() -> None:
    model = onnx.load_model_from_string(build_model(chain(1), BY_NAME["vsi:v853"], FloatConstants(), 1))
    onnx.checker.check_model(model)
    (convolution,) = (node for node in model.graph.node if node.op_type == "Conv")
    weights = {item.name: item for item in model.graph.initializer}
    graph = chain(1)
    real = graph.constants["w0"] * graph.types["w0"].quant.scale_array(4)  # type: ignore[union-attr]
    np.testing.assert_allclose(onnx.numpy_helper.to_array(weights[convolution.input[1]]), real, rtol=1e-6)


def test_every_quantised_tensor_can_be_tapped() -> None:
    graph, target = chain(), BY_NAME["vsi:v853"]
    names = [name for name, kind in graph.types.items() if kind.quant is not None and name in graph.producers]
    fast = load_on(backend, graph, target, FAST).run(SAMPLES[0], names)
    exact = load_on(backend, graph, target, EXACTLY).run(SAMPLES[0], names)
    for name in names:
        assert fast[name].dtype == np.int8
        assert np.mean(fast[name] == exact[name]) >= 0.995, name


def test_dequantised_constants_are_kept_and_bounded() -> None:
    kept, graph = FloatConstants(limit_bytes=3000), chain(3)
    kind, first, second = graph.types["w0"], graph.constants["w0"], graph.constants["w1"]
    assert kept.get(first, kind, None) is kept.get(first, kind, None)
    assert kept.get(first, kind, np.array(0.5)) is not kept.get(first, kind, None)
    kept.get(second, graph.types["w1"], None)
    value = kept.get(first, kind, None)
    np.testing.assert_array_equal(value[0, 0], first[0, 0].astype(np.float32) * np.float32(kind.quant.scale[0]))  # type: ignore[union-attr]


def test_half_precision_is_rounded_once_a_node() -> None:
    case = next(case for case in CASES if case.name == "Conv")
    found = quantized(case, Precision.FP16)
    target = BY_NAME["vsi:v853"]
    fast, exact = (load_on(backend, found.graph, target, options) for options in (FAST, EXACTLY))
    assert agreement(fast, exact, found.inputs[:2]).share > 0.99


def test_a_candidate_is_built_with_little_work() -> None:
    graph, target = chain(27), BY_NAME["vsi:v853"]
    load_on(backend, graph, target, FAST)
    assert work.calls_of(lambda: load_on(backend, graph, target, FAST)) < 1_000 * len(graph.nodes)


def test_metadata_names_where_hidden_tensors_are() -> None:
    model = onnx.load_model_from_string(build_model(chain(1), BY_NAME["vsi:v853"], FloatConstants(), 2))
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert facts["dovetail.threads"] == "2"
    hidden = json.loads(facts["dovetail.taps"])
    assert set(hidden) == {"c0"}
