"""RKNN Toolkit 2 itself takes the exported file: names are its own, words are those that it knows.

The golden file is what `hybrid_quantization_step1` of 2.5.0 writes for the digit detector. Both steps are run with the
interpreter that DOVETAIL_RKNN_PYTHON names: the toolkit wants an old numpy.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import needs
import pytest

from dovetail.errors import FormatError, InexpressiblePlan
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan import Override, Plan, parse_placement
from dovetail.plan.plan import plan_from_json

from ..conftest import GOLDEN

BASE = parse_placement("vsi:v853@i8pc")
STEP_1 = GOLDEN / "rknn_digits.quantization.cfg"
TAIL = ("head/wh_exp", "head/concat", "head/reshape", "head/transpose")


@pytest.fixture
def network(digits: Path) -> Graph:
    return normalize(load_model(digits / "digits.onnx"))


def _plan(network: Graph, place: str) -> Plan:
    return Plan(
        network.digest,
        parse_placement("vsi:v853@i8pc"),
        {name: Override(parse_placement(place), "a test") for name in TAIL},
    )


@pytest.mark.parametrize(("place", "word"), [("vsi:v853@fp16", "float16"), ("vsi:v853@i16", "int16")])
def test_names_are_those_of_the_toolkit_and_the_rest_is_kept(place: str, word: str, network: Graph) -> None:
    form, before = find_format("rknn"), STEP_1.read_bytes()
    content = form.write(WriteRequest(_plan(network, place), network, previous=before)).content
    block, rest = content.split(b"quantize_parameters:", 1)
    assert block.decode().splitlines() == [
        "custom_quantize_layers:",
        f"    'head/wh_exp_out': {word}",
        f"    'head/concat_out': {word}",
        f"    'head/reshape_out_rs_sw': {word}",
        f"    'detections': {word}",
    ]
    assert rest == before.split(b"quantize_parameters:", 1)[1]
    request = ReadRequest(network, BASE, exception=parse_placement(place))
    assert form.lint(content, request) == ()
    back = form.read(content, request)
    assert {name: str(override.placement) for name, override in back.overrides.items()} == dict.fromkeys(TAIL, place)


def test_a_name_that_the_toolkit_lacks_is_an_error_before_it_is_one_there(network: Graph) -> None:
    content = STEP_1.read_bytes().replace(b"layers: {}", b"layers:\n    head/reshape_out: float16")
    with pytest.raises(FormatError, match="head/reshape_out_rs_sw"):
        find_format("rknn").read(content, ReadRequest(network, BASE))


def test_the_toolkits_other_names_may_be_listed(network: Graph) -> None:
    content = STEP_1.read_bytes().replace(b"layers: {}", b"layers: {detections_int8: float16, head/wh_out: float16}")
    assert set(find_format("rknn").read(content, ReadRequest(network, BASE)).overrides) == {"head/wh"}


def test_what_the_toolkit_has_no_word_for_is_said(network: Graph) -> None:
    with pytest.raises(InexpressiblePlan, match="head/concat") as caught:
        find_format("rknn").write(WriteRequest(_plan(network, "vsi:v853@fp32"), network))
    assert str(plan_from_json(caught.value.nearest).placement("head/concat")) == "vsi:v853@fp16"


def test_the_file_of_the_first_toolkit_is_named(network: Graph) -> None:
    content = b"%YAML 1.2\n---\ncustomized_quantize_layers:\n    Conv_12: float32\nquantize_parameters: {}\n"
    with pytest.raises(FormatError, match="Toolkit 1") as caught:
        find_format("rknn").read(content, ReadRequest(network, BASE))
    assert (caught.value.code, caught.value.line) == ("TOOLKIT_1", 3)


_STEPS = """
import sys
import numpy as np
from rknn.api import RKNN
samples = np.load("calib.npz")["images"][:4].astype(np.float32)
for index, sample in enumerate(samples):
    np.save(f"{index}.npy", sample[None])
open("dataset.txt", "w").write("".join(f"{index}.npy\\n" for index in range(len(samples))))
rknn = RKNN()
if sys.argv[1] == "1":
    rknn.config(target_platform="rk3588")
    rknn.load_onnx("digits.onnx", inputs=["images"], input_size_list=[[1, 1, 40, 40]])
    sys.exit(rknn.hybrid_quantization_step1(dataset="dataset.txt", proposal=False))
rknn.hybrid_quantization_step2("digits.model", "digits.data", "hybrid.cfg")
rknn.init_runtime()
found = [rknn.inference(inputs=[sample[None]], data_format=["nchw"])[0] for sample in samples]
sys.exit(0 if np.concatenate(found)[..., 4:].max() > 0.5 else 9)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["vsi:v853@fp16", "vsi:v853@i16"])
def test_the_toolkit_takes_the_file_and_finds_digits_again(
    place: str, network: Graph, digits: Path, tmp_path: Path
) -> None:
    python = os.environ.get("DOVETAIL_RKNN_PYTHON", "")
    if not python:
        needs.without("rknn", "DOVETAIL_RKNN_PYTHON names no interpreter with RKNN Toolkit 2")
    for name in ("digits.onnx", "calib.npz"):
        (tmp_path / name).write_bytes((digits / name).read_bytes())

    def step(number: str) -> int:
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run([python, "-c", _STEPS, number], cwd=tmp_path, env=clean, check=False).returncode

    assert step("1") == 0
    before = (tmp_path / "digits.quantization.cfg").read_bytes()
    (tmp_path / "hybrid.cfg").write_bytes(before)
    assert step("2") == 9, "all in 8 bits no score is above 0.5"
    form = find_format("rknn")
    content = form.write(WriteRequest(_plan(network, place), network, previous=before)).content
    (tmp_path / "hybrid.cfg").write_bytes(content)
    assert step("2") == 0
