"""ONNX Runtime itself: its quantiser takes our arguments, its report of who runs what is compared with the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import needs
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnxruntime.quantization import CalibrationDataReader, quantize_static

from dovetail.errors import FormatError, PlanError
from dovetail.exporters import to_onnx
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.formats.onnxruntime.arguments import quantizer_arguments
from dovetail.formats.onnxruntime.assignment import CPU_PROVIDER, RECORD, check_assignment, misplaced, read_assignment
from dovetail.ir import Graph
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import Range, Ranges, quantize

from ..conftest import make_plan, placements

BASE = parse_placement("vsi:v853@i8pc")


PROVIDERS = {"cpu": CPU_PROVIDER, "vsi:v853": "VSINPUExecutionProvider"}


class _Images(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.left: Iterator[dict[str, np.ndarray]] = iter(
            [{"images": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def _ranges(graph: Graph) -> Ranges:
    return Ranges(graph.digest, "test", 1, {name: Range(-4.0, 4.0) for name in graph.types})


def _quantised(graph: Graph, plan: Plan, folder: Path) -> onnx.ModelProto:
    """Return what ONNX Runtime's own quantiser makes of the exported arguments."""
    content = find_format("onnxruntime").write(WriteRequest(plan, graph)).content
    source, target = folder / "float.onnx", folder / "quantised.onnx"
    onnx.save(to_onnx(graph), source)
    quantize_static(source, target, _Images(), **quantizer_arguments(content))
    return onnx.load(target)


def test_the_real_quantiser_leaves_out_what_the_plan_leaves_in_float(graph: Graph, tmp_path: Path) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32", join="cpu@fp32", flat="cpu@fp32")
    model = _quantised(graph, plan, tmp_path)
    dequantised = {node.output[0] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    for node in model.graph.node:
        if node.name in ("stem", "head/conv"):
            assert set(node.input) <= dequantised
        if node.name == "join":
            assert node.output[0] not in {n.input[0] for n in model.graph.node if n.op_type == "QuantizeLinear"}


def test_the_real_quantiser_makes_sixteen_bits_where_the_plan_has_them(graph: Graph, tmp_path: Path) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", sig="vsi:v853@i16", join="vsi:v853@i16", flat="vsi:v853@i16")
    model = _quantised(graph, plan, tmp_path)
    onnx.checker.check_model(model)
    types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    zero = {n.input[0]: types[n.input[2]] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    assert zero["images"] == onnx.TensorProto.INT8
    wide = [name for name, kind in zero.items() if kind == onnx.TensorProto.INT16]
    assert any("scores" in name for name in wide)
    assert any("cat" in name for name in wide)
    assert not any("relu" in name or "stem" in name for name in wide)
    session = ort.InferenceSession(model.SerializeToString(), providers=[CPU_PROVIDER])
    assert session.run(None, {"images": np.zeros((1, 3, 8, 8), np.float32)})[0].shape == (1, 8, 64)


def test_the_arguments_go_there_and_back(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@u8", sig="vsi:v853@i16", join="cpu@fp32")
    content = find_format("onnxruntime").write(WriteRequest(plan, graph)).content
    assert json.loads(content)["nodes_to_exclude"] == ["join"]
    for exception in ("cpu@fp32", "vsi:v853@i16"):
        back = find_format("onnxruntime").read(content, ReadRequest(graph, plan.default, parse_placement(exception)))
        same = {name for name, place in placements(graph, plan).items() if str(place) == exception}
        assert {name for name in same if back.placement(name) == plan.placement(name)} == same


def test_a_word_of_the_arguments_that_is_unknown_is_named(graph: Graph) -> None:
    text = b'{"extra_options": {"TensorQuantOverrides": {"scores": [{"quant_type": "QInt4"}]}}}'
    with pytest.raises(FormatError, match="QInt4"):
        find_format("onnxruntime").read(text, ReadRequest(graph, BASE))
    with pytest.raises(FormatError, match="UNKNOWN_WORD"):
        quantizer_arguments(b'{"activation_type": "QInt7"}')


def _session(model: onnx.ModelProto, **entries: str) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry(RECORD, "1")
    for key, value in entries.items():
        options.add_session_config_entry(f"session.{key}", value)
    return ort.InferenceSession(model.SerializeToString(), options, providers=[CPU_PROVIDER])


def test_the_runtimes_own_report_equals_the_plan_or_is_an_error(graph: Graph) -> None:
    session = _session(to_onnx(graph))
    assert set(read_assignment(session)) == {node.name for node in graph.nodes}
    check_assignment(session, graph, make_plan(graph, "cpu@fp32"), PROVIDERS)
    plan = make_plan(graph, "cpu@fp32", sig="vsi:v853@fp32")
    with pytest.raises(PlanError, match=r"'sig' \(CPUExecutionProvider, planned VSINPUExecutionProvider\)"):
        check_assignment(session, graph, plan, PROVIDERS)


def test_without_a_report_or_a_provider_it_is_an_error(graph: Graph) -> None:
    plain = ort.InferenceSession(to_onnx(graph).SerializeToString(), providers=[CPU_PROVIDER])
    with pytest.raises(PlanError, match="recorded no assignment"):
        check_assignment(plain, graph, make_plan(graph, "cpu@fp32"), PROVIDERS)
    with pytest.raises(PlanError, match="vsi:v853"):
        misplaced({}, graph, make_plan(graph, "vsi:v853@fp32"), {"cpu": CPU_PROVIDER})


def test_another_providers_assignment_is_read_and_compared(graph: Graph) -> None:
    """OpenVINO as a plug-in of ONNX Runtime takes what it can; the plan made of its report passes, others do not."""
    plugin = needs.package("onnxruntime_ep_openvino")
    ort.register_execution_provider_library("openvino", plugin.get_library_path())
    try:
        devices = [one for one in ort.get_ep_devices() if one.ep_name == plugin.get_ep_names()[0]]
        options = ort.SessionOptions()
        options.add_session_config_entry(RECORD, "1")
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_provider_for_devices(devices[:1], {})
        session = ort.InferenceSession(to_onnx(graph).SerializeToString(), options)
        assigned = read_assignment(session)
        assert set(assigned.values()) == {plugin.get_ep_names()[0]}
        providers = {"cpu": CPU_PROVIDER, "vsi:v853": plugin.get_ep_names()[0]}
        check_assignment(session, graph, make_plan(graph, "vsi:v853@fp32"), providers)
        with pytest.raises(PlanError, match="'sig'"):
            check_assignment(session, graph, make_plan(graph, "vsi:v853@fp32", sig="cpu@fp32"), providers)
        del session
    finally:
        ort.unregister_execution_provider_library("openvino")


def test_annotations_go_there_and_back_and_load(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32", join="cpu@fp32")
    form = find_format("onnxruntime-layers")
    listing = to_onnx(graph)
    for node in listing.graph.node:
        if node.name == "stem":
            node.doc_string = "kept"
    written = form.write(WriteRequest(plan, graph, listing=listing.SerializeToString()))
    model = onnx.ModelProto.FromString(written.content)
    assert {node.name: node.metadata_props[0].value for node in model.graph.node}["sig"] == "cpu"
    assert next(node for node in model.graph.node if node.name == "stem").doc_string == "kept"
    back = form.read(written.content, ReadRequest(graph, plan.default))
    assert placements(graph, back) == placements(graph, plan)
    # ONNX Runtime parses the setting; the NPU's device is not here, so it says so and goes on.
    session = _session(model, layer_assignment_settings=written.beside["settings"].decode().strip())
    assert set(read_assignment(session).values()) == {CPU_PROVIDER}


def test_a_model_without_names_or_annotations_is_refused(graph: Graph) -> None:
    form = find_format("onnxruntime-layers")
    model = to_onnx(graph)
    with pytest.raises(FormatError, match="NO_ANNOTATION"):
        form.read(model.SerializeToString(), ReadRequest(graph, BASE))
    model.graph.node[0].name = ""
    with pytest.raises(FormatError, match="not in the ONNX file"):
        form.write(WriteRequest(make_plan(graph, "cpu@fp32"), graph, listing=model.SerializeToString()))
    with pytest.raises(FormatError, match="ONNX file is needed"):
        form.write(WriteRequest(make_plan(graph, "cpu@fp32"), graph))


@pytest.mark.parametrize("base", ["vsi:v853@u8", "vsi:v853@i8pc"])
@pytest.mark.parametrize("high", ["vsi:v853@i16", "cpu@fp32"])
def test_a_qdq_file_says_the_plan_and_runs(base: str, high: str, graph: Graph) -> None:
    plan = make_plan(graph, base, sig=high, join=high, flat=high)
    request = WriteRequest(plan, graph, quantized=quantize(graph, plan, _ranges(graph)))
    form = find_format("onnx-qdq")
    written = form.write(request)
    onnx.checker.check_model(onnx.ModelProto.FromString(written.content), full_check=True)
    back = form.read(written.content, ReadRequest(graph, parse_placement(base)))
    assert placements(graph, back) == placements(graph, plan)
    assert ort.InferenceSession(written.content, providers=[CPU_PROVIDER]).run(
        None, {"images": np.zeros((1, 3, 8, 8), np.float32)}
    )


def test_a_qdq_file_needs_scales(graph: Graph) -> None:
    with pytest.raises(FormatError, match="give its ranges"):
        find_format("onnx-qdq").write(WriteRequest(make_plan(graph, "vsi:v853@u8"), graph))


def test_sixteen_bits_behind_sixteen_bits_are_read_back(graph: Graph) -> None:
    places = dict.fromkeys(("stem", "act", "head_conv", "sig", "scale", "join", "flat"), "vsi:v853@i16")
    plan = make_plan(graph, "vsi:v853@i8pc", **places)
    content = find_format("onnxruntime").write(WriteRequest(plan, graph)).content
    back = find_format("onnxruntime").read(content, ReadRequest(graph, plan.default, parse_placement("vsi:v853@i16")))
    assert placements(graph, back) == placements(graph, plan)


@pytest.mark.parametrize("high", ["vsi:v853@i16", "cpu@fp32"])
@pytest.mark.parametrize("renamed", ["scores", "head/conv:0", "relu_out", "boxes", "sig", "scale", "head/conv", "join"])
def test_a_name_that_the_network_lacks_is_refused(high: str, renamed: str, graph: Graph) -> None:
    """Every name of a file is renamed in turn; none may be passed over."""
    plan = make_plan(graph, "vsi:v853@i8pc", sig=high, join=high)
    content = find_format("onnxruntime").write(WriteRequest(plan, graph)).content
    wrong = content.replace(f'"{renamed}"'.encode(), f'"{renamed}Q"'.encode())
    form, request = find_format("onnxruntime"), ReadRequest(graph, plan.default, parse_placement(high))
    if wrong == content:
        form.read(content, request)
        return
    with pytest.raises(FormatError, match=f"{renamed}Q' is no name of this network"):
        form.read(wrong, request)
    assert "UNKNOWN_NAME" in [item.code for item in form.lint(wrong, request)]
