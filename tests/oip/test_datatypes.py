"""Elements on the wire: what goes out comes back, and what is not of a type and shape is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tritonclient.utils as triton
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn

from dovetail.errors import DeviceError
from dovetail.ir.dtypes import AnyArray, DType, round_to_bf16
from dovetail.oip.datatypes import DATATYPES, from_numbers, pack, unpack
from dovetail.oip.failures import error_from_json, error_to_json

KINDS = sorted(DType, key=lambda kind: kind.value)


@given(data=st.data(), kind=st.sampled_from(KINDS), shape=hn.array_shapes(min_dims=0, min_side=0, max_side=4))
def test_raw_bytes_come_back(data: st.DataObject, kind: DType, shape: tuple[int, ...]) -> None:
    array = data.draw(hn.arrays(kind.carrier, shape))
    if kind is DType.BF16:
        array = round_to_bf16(array)
    raw = pack(array, kind)
    assert len(raw) == array.size * kind.size_bytes
    found = unpack("x", raw, kind, shape)
    assert (found.dtype, found.shape) == (array.dtype, shape)
    same = found.view(np.uint8) if found.ndim and found.size else found
    assert np.array_equal(same, array.view(np.uint8) if array.ndim and array.size else array, equal_nan=kind.is_float)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not DType.BF16])
def test_names_are_those_that_another_client_knows(kind: DType) -> None:
    assert np.dtype(triton.triton_to_np_dtype(DATATYPES[kind])) == kind.carrier


@given(array=hn.arrays(np.float32, 20, elements=st.floats(width=32, allow_nan=False)))
def test_bf16_is_that_of_another_library(array: AnyArray) -> None:
    with np.errstate(over="ignore"):
        theirs = array.astype(ml_dtypes.bfloat16)
    assert pack(array, DType.BF16) == theirs.tobytes()
    assert np.array_equal(unpack("x", theirs.tobytes(), DType.BF16, [20]), theirs.astype(np.float32))


def test_numbers_on_both_sides_of_2_to_63_are_whole() -> None:
    numbers = [0, 1 << 63, (1 << 64) - 1]
    assert from_numbers("x", numbers, DType.U64, [3]).tolist() == numbers
    for bad in ([0, 1 << 64], [0.5, 1 << 63], [-1, 1 << 63]):
        with pytest.raises(DeviceError):
            from_numbers("x", bad, DType.U64, [2])


@given(data=st.data(), kind=st.sampled_from(KINDS), shape=hn.array_shapes(max_dims=3, max_side=3))
def test_numbers_come_back_nested_or_flat(data: st.DataObject, kind: DType, shape: tuple[int, ...]) -> None:
    elements = {"allow_nan": False, "allow_infinity": False} if kind.is_float else {}
    array = data.draw(hn.arrays(kind.carrier, shape, elements=elements))
    if kind is DType.BF16:
        array = round_to_bf16(array)
    for numbers in (array.tolist(), array.ravel().tolist()):
        assert np.array_equal(from_numbers("x", numbers, kind, shape), array)


@pytest.mark.parametrize(
    ("kind", "numbers", "shape"),
    [
        (DType.U8, [256], [1]),
        (DType.U8, [-1], [1]),
        (DType.I64, [1 << 63], [1]),
        (DType.I8, [1.5], [1]),
        (DType.I8, [True], [1]),
        (DType.BOOL, [1], [1]),
        (DType.F32, ["1"], [1]),
        (DType.F32, [None], [1]),
        (DType.F32, [[1.0], [1.0, 2.0]], [3]),
        (DType.F32, [1.0, 2.0], [3]),
        (DType.F32, [1.0], [-1]),
        (DType.F32, [1.0], [1] * 40),
        (DType.F32, {"a": 1}, [1]),
    ],
)
def test_numbers_of_another_type_or_shape_are_refused(kind: DType, numbers: object, shape: list[int]) -> None:
    with pytest.raises(DeviceError):
        from_numbers("x", numbers, kind, shape)


@pytest.mark.parametrize(
    ("kind", "raw", "shape"),
    [(DType.F32, bytes(7), [2]), (DType.F32, b"", [1 << 61]), (DType.F32, b"", [-1]), (DType.BOOL, b"\x02", [1])],
)
def test_bytes_of_another_shape_are_refused(kind: DType, raw: bytes, shape: list[int]) -> None:
    with pytest.raises(DeviceError):
        unpack("x", raw, kind, shape)


def test_an_error_comes_back_as_its_type() -> None:
    from dovetail.errors import BundleError, CompileError, DeviceLost

    for error in (BundleError("what.", hint="try", option="model"), DeviceLost("gone.")):
        found = error_from_json(error_to_json(error).encode())
        assert (type(found), found.message, found.hint, found.option) == (
            type(error),
            error.message,
            error.hint,
            error.option,
        )
    # What has fields of its own comes as an error of the device.
    assert type(error_from_json(error_to_json(CompileError("no.", partition=3)).encode())) is DeviceError


@given(data=st.binary(max_size=80))
def test_errors_that_cannot_be_read_are_errors(data: bytes) -> None:
    assert str(error_from_json(data))


def test_an_error_names_no_other_class() -> None:
    for kind in ("Iterable", "_restore", "CompileFailure", "__class__", "Exception"):
        document = b'{"error": "x", "kind": "' + kind.encode() + b'"}'
        assert type(error_from_json(document)) is DeviceError
