"""Damaged TFLite files: a LoadError that names the place, and never anything else."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import LoadError
from dovetail.importers import load_model
from dovetail.importers.tflite import load_tflite
from dovetail.ir import DType
from fuzz_importers import fuzz
from judges.tflite_cases import case as make_case
from judges.tflite_cases import ints, random, real
from judges.tflite_graphs import LiteSubgraph, Step, build_model
from judges.tflite_model import LiteTensor

_ADD, _RESHAPE = 0, 22
_CONV = {"padding": 0, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}


def _convolution() -> bytes:
    inputs = [real(1, 5, 5, 3), random(4, 3, 3, 3), random(4)]
    return make_case("CONV_2D", inputs, options=("Conv2DOptions", dict(_CONV))).operator.to_bytes()


def test_300_mutants_load_or_are_refused() -> None:
    ends, broken = fuzz(_convolution(), load_tflite, 300, seed=1)
    assert not broken
    assert ends["refused"] > 100


def test_every_truncation_is_refused_with_the_place() -> None:
    data = _convolution()
    for size in range(0, len(data), 7):
        with pytest.raises(LoadError):
            load_tflite(data[:size])


def test_a_text_file_of_that_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_text("this is no model, whatever it says")
    with pytest.raises(LoadError, match="TFL3"):
        load_model(path)


def test_a_vector_that_claims_to_be_huge_is_refused_before_it_is_read() -> None:
    data = bytearray(_convolution())
    at = data.find(struct.pack("<I", 4 * 3 * 3 * 3 * 4))
    assert at > 0
    data[at : at + 4] = struct.pack("<I", 2**31)
    with pytest.raises(LoadError, match="does not fit into the file"):
        load_tflite(bytes(data))


def _one_add(tensors: list[LiteTensor]) -> bytes:
    names = tuple(tensor.name for tensor in tensors)
    return build_model([LiteSubgraph(tensors, [Step(_ADD, names[:2], names[2:])], names[:1], names[2:])])


def test_a_constant_whose_bytes_do_not_fit_its_shape_is_named() -> None:
    small = LiteTensor("small", DType.F32, (1000, 1000), None, np.zeros(3, np.float32))
    tensors = [LiteTensor("x", DType.F32, (2,)), small, LiteTensor("y", DType.F32, (2,))]
    with pytest.raises(LoadError, match="'small' holds 12 bytes"):
        load_tflite(_one_add(tensors))


def test_a_tensor_that_nothing_makes_is_named() -> None:
    tensors = [LiteTensor("x", DType.F32, (2,)), LiteTensor("lost", DType.F32, (2,)), LiteTensor("y", DType.F32, (2,))]
    with pytest.raises(LoadError, match="'lost' before anything makes it"):
        load_tflite(_one_add(tensors))


def test_an_unknown_operator_is_named_with_its_place() -> None:
    tensors = [LiteTensor("x", DType.F32, (2,)), LiteTensor("y", DType.F32, (2,))]
    model = build_model([LiteSubgraph(tensors, [Step(32, ("x",), ("y",), custom_name="Mystery")], ("x",), ("y",))])
    with pytest.raises(LoadError, match=r"operator 0 'y' \(Mystery\)") as caught:
        load_tflite(model)
    assert "inspect" in str(caught.value)


def test_a_small_file_cannot_ask_for_much_memory() -> None:
    found = make_case("FILL", [ints(2, 2), real()]).operator.to_bytes()
    data = bytearray(found)
    at = data.find(struct.pack("<II", 2, 2))
    data[at : at + 8] = struct.pack("<II", 2**30, 2**30)
    try:
        graph = load_tflite(bytes(data))
    except LoadError:
        return
    assert sum(value.nbytes for value in graph.constants.values()) < 2**20
