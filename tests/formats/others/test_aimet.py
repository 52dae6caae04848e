"""AIMET itself loads the exported encodings and computes with them what the plan means."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from dovetail.errors import FormatError
from dovetail.exporters import to_onnx
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.ir import Graph
from dovetail.plan import Plan, parse_placement
from dovetail.quantize import Range, Ranges, quantize

from ..conftest import GOLDEN, make_plan, placements

BASE = parse_placement("vsi:v853@i8pc")


_WIDE = "vsi:v853@i16"


def _plan(graph: Graph) -> Plan:
    # AIMET gives the inputs of a Concat the encoding of its output: the plan has them alike.
    places = dict.fromkeys(("sig", "scale", "join", "flat"), _WIDE)
    return make_plan(graph, "vsi:v853@i8pc", head_conv="vsi:v853@fp16", **places)


def _ranges(graph: Graph) -> Ranges:
    return Ranges(graph.digest, "test", 1, {name: Range(-4.0, 4.0) for name in graph.types})


def _encodings(graph: Graph, plan: Plan) -> bytes:
    quantized = quantize(graph, plan, _ranges(graph))
    return find_format("aimet").write(WriteRequest(plan, graph, quantized=quantized)).content


def test_with_scales_every_tensor_is_listed(graph: Graph) -> None:
    content = _encodings(graph, _plan(graph))
    assert content == (GOLDEN / "aimet_scales.encodings").read_bytes()
    document = json.loads(content)
    assert set(document["activation_encodings"]) == {
        "images", "stem_out", "relu_out", "head/conv:0", "scores", "boxes", "cat", "output"
    }  # fmt: skip
    assert document["activation_encodings"]["head/conv:0"] == [{"bitwidth": 16, "dtype": "float"}]
    assert {name: len(found) for name, found in document["param_encodings"].items()} == {"w0": 4, "two": 1}
    image = document["activation_encodings"]["images"][0]
    assert image["min"] == pytest.approx(image["offset"] * image["scale"])
    assert image["max"] == pytest.approx((image["offset"] + 255) * image["scale"])


def test_the_scales_go_there_and_back(graph: Graph) -> None:
    plan = _plan(graph)
    back = find_format("aimet").read(
        _encodings(graph, plan), ReadRequest(graph, BASE, exception=parse_placement(_WIDE))
    )
    assert placements(graph, back) == placements(graph, plan)


@pytest.mark.parametrize(
    "text",
    [
        '{"version": "1.0.0", "activation_encodings": [{"name": "scores", "bw": 16, "dtype": "INT", "is_sym": true}]}',
        '{"version": "2.0.0", "encodings": [{"name": "scores", "output_dtype": "int16"},'
        ' {"name": "w0", "output_dtype": "int8"}, {"name": "images", "output_dtype": "uint8"}]}',
    ],
)
def test_later_versions_are_read(text: str, graph: Graph) -> None:
    request = ReadRequest(graph, BASE, exception=parse_placement(_WIDE))
    plan = find_format("aimet").read(text.encode(), request)
    assert placements(graph, plan) == placements(graph, make_plan(graph, "vsi:v853@i8pc", sig=_WIDE))
    assert find_format("aimet").lint(text.encode(), request) == ()


def test_only_the_version_that_all_read_is_written(graph: Graph) -> None:
    with pytest.raises(FormatError, match=r"'1\.0\.0' is not written"):
        find_format("aimet").write(WriteRequest(_plan(graph), graph, version="1.0.0"))


@pytest.mark.slow
def test_aimet_loads_the_file_and_computes_what_the_plan_means(graph: Graph, tmp_path: Path) -> None:
    quantsim = needs.package("aimet_onnx.quantsim")
    plan = _plan(graph)
    path = tmp_path / "head.encodings"
    path.write_bytes(_encodings(graph, plan))
    sim = quantsim.QuantizationSimModel(
        onnx.ModelProto.FromString(to_onnx(graph).SerializeToString()), providers=["CPUExecutionProvider"]
    )
    quantsim.load_encodings_to_sim(sim, str(path), strict=False)
    found = sim.qc_quantize_op_dict
    assert (found["scores"].bitwidth, found["stem_out"].bitwidth, found["images"].bitwidth) == (16, 8, 8)
    assert found["head/conv:0"].data_type.name == "float"
    assert all(found[name].enabled for name in ("images", "scores", "cat", "w0"))
    images = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    theirs = sim.session.run(None, {"images": images})[0]
    ours = to_onnx(quantize(graph, plan, _ranges(graph)).graph).SerializeToString()
    mine = ort.InferenceSession(ours, providers=["CPUExecutionProvider"]).run(None, {"images": images})[0]
    noise = np.square(theirs - mine).mean() / np.square(mine).mean()
    assert noise < 1e-4, "more than the rounding of a few ties"
    # A tensor that the model does not have is an error there too: the exported names are real.
    path.write_bytes(path.read_bytes().replace(b'"scores"', b'"scoress"'))
    with pytest.raises(AssertionError, match="scoress"):
        quantsim.load_encodings_to_sim(sim, str(path), strict=False)
