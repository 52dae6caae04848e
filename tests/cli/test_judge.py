"""dovetail judge: a table that fits, JSON alone, exit codes, and one line for what cannot be judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

from dovetail.ir import AnyArray

from .conftest import Said, Tiny

Run = Callable[..., Said]
_WIDEST = 100


class _Reader(CalibrationDataReader):
    """The tiny model's samples as ONNX Runtime's quantiser takes them."""

    def __init__(self, path: Path) -> None:
        self._samples: Iterator[AnyArray] = iter(np.load(path)["x"])

    def get_next(self) -> dict[str, AnyArray] | None:
        sample = next(self._samples, None)
        return None if sample is None else {"x": sample[None]}


@pytest.fixture(scope="module")
def quantized(tiny: Tiny) -> Path:
    """Return the tiny model with unsigned activations and signed weights."""
    path = tiny.folder / "quantized.onnx"
    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(tiny.model, path, _Reader(tiny.data), **types)
    return path


def _judge(run: Run, tiny: Tiny, model: Path, *options: object) -> Said:
    return run("judge", model, "--data", tiny.data, "--metric", tiny.metric, "--target", "vsi:a311d", *options)


def test_a_model_that_8_bits_break_is_missed(tiny: Tiny, run: Run, quantized: Path) -> None:
    said = _judge(run, tiny, quantized, "--float", tiny.model, "--nodes")
    assert said.code == 1, said.err
    assert said.err == ""
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= _WIDEST
    assert lines[0].startswith("Missed: the target loses ")
    assert "What the target makes of the file" in said.out
    assert "restated: u8" in said.out
    assert "Every node" in said.out


def test_json_has_every_node_with_what_is_asked_and_given(tiny: Tiny, run: Run, quantized: Path) -> None:
    said = _judge(run, tiny, quantized, "--float", tiny.model, "--max-drop", "1.0", "--json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert document["met"] is True
    assert document["scores"]["float"] == 1.0
    assert document["loss"] == pytest.approx(1.0 - document["scores"]["target"])
    assert document["samples"] == 120
    assert sum(document["counts"].values()) == len(document["nodes"]) >= 5
    trunk = next(item for item in document["nodes"] if item["outcome"] == "restated")
    assert trunk["asked"]["weight"] == {
        "type": "i8",
        "bits": 8,
        "per_channel": False,
        "symmetric": True,
        "power_of_two": False,
        "zero_points": [0, 0],
    }
    assert (trunk["given"]["weight"]["type"], trunk["given"]["weight"]["zero_points"]) == ("u8", [128, 128])
    assert (trunk["place"], trunk["engine"]) == ("vsi:a311d@u8", "NN")
    assert trunk["reason"].startswith("u8 with i8 weights; ")
    assert document["cost"]["latency_ns"] > 0
    assert document["modelled"] == []


def test_a_score_can_be_demanded(tiny: Tiny, run: Run, quantized: Path) -> None:
    said = _judge(run, tiny, quantized, "--max-drop", "1.0", "--min-score", "1.5")
    assert said.code == 1
    assert "a score of 1.5 is demanded" in said.out


def test_mistakes_are_one_line(tiny: Tiny, run: Run, quantized: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes(quantized.read_bytes()[:200])
    (tmp_path / "empty").mkdir()
    good = ("--metric", tiny.metric)
    data = ("--data", tiny.data)
    for command, words in (
        (
            (tiny.model, *data, *good),
            "a float model, or quantised only as it runs (quantize_dynamic), and there is no quantisation to judge",
        ),
        ((quantized, *data, *good, "--float", quantized), "is quantised itself"),
        ((quantized, *data, *good, "--target", "vsi:a311"), "Did you mean 'vsi:a311d'"),
        ((tmp_path / "cut.onnx", *data, *good), "cut.onnx"),
        ((tmp_path / "none.onnx", *data, *good), "none.onnx"),
        ((quantized, "--data", tmp_path / "empty", *good), "empty"),
        ((quantized, *data, "--metric", "top2"), "top"),
        ((quantized, *data, *good, "--max-drop", "much"), "much"),
        ((quantized, *data, *good, "--samples", "0"), "0 samples are too few"),
        ((quantized, *data, *good, "--host", "cortex-a9"), "cortex-a9"),
        ((quantized, *data, *good, "--board", "clock_mhz=800"), "--vendor"),
        ((quantized, *good), "--data"),
    ):
        said = run("judge", *command)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), (command, said)
        assert words in said.err, said.err
