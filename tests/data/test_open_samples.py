"""Sources of samples: what comes out is what went in, and bad data says where."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.data import InputSpec, Preprocess, Sample, open_samples
from dovetail.errors import DataError

F32 = np.dtype(np.float32)
X = InputSpec("x", F32, (1, 2, 3))
RAW = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3)


def npz(path, compressed=False, **arrays):
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


def header(dtype="<f4", shape=(5, 2, 3), fortran=False):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": fortran, "shape": shape})
    return buffer.getvalue()


def zipped(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["x", "anything"])
def test_npz_rows_are_cast_and_other_arrays_are_labels(tmp_path, compressed, name):
    labels = np.arange(5)
    path = npz(tmp_path / "d.npz", compressed, **{name: RAW, "label": labels, "classes": np.array(["a", "b"])})
    source = open_samples(path, [X])
    assert source.count == 5
    for _ in range(2):  # as often as asked
        samples = list(source)
        np.testing.assert_array_equal(np.concatenate([s.inputs["x"] for s in samples]), RAW)
        assert all(s.inputs["x"].dtype == F32 and s.inputs["x"].shape == (1, 2, 3) for s in samples)
        assert [int(s.labels["label"]) for s in samples] == [0, 1, 2, 3, 4]
        assert all(set(s.labels) == {"label"} for s in samples)


@pytest.mark.parametrize("compressed", [False, True])
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_subsets_of_subsets_are_the_rows(tmp_path_factory, compressed, data):
    path = npz(tmp_path_factory.mktemp("d") / "d.npz", compressed, x=RAW, f=np.asfortranarray(RAW), y=np.arange(5))
    source = open_samples(path, [X])
    first = data.draw(st.lists(st.integers(0, 4), unique=True, min_size=1))
    second = data.draw(st.lists(st.integers(0, len(first) - 1), unique=True, min_size=1))
    chosen = source.subset(first).subset(second)
    expected = [sorted(first)[i] for i in sorted(second)]
    assert [int(s.labels["y"]) for s in chosen] == expected
    assert [int(s.inputs["x"][0, 0, 0]) for s in chosen] == [6 * i for i in expected]
    assert [s.id for s in chosen] == [f"{i:06d}" for i in expected]
    assert chosen.count == len(expected)
    assert chosen.digest == source.subset(expected).digest
    assert (chosen.digest == source.digest) == (chosen.count is None)


def test_subset_refuses_bad_indices(tmp_path):
    source = open_samples(npz(tmp_path / "d.npz", x=RAW), [X])
    for indices, message in (
        ([], "no sample"),
        ([1, 1], "repeated"),
        ([5], "index 5"),
        ([-1, 2], "index -1"),
    ):
        with pytest.raises(DataError, match=message):
            source.subset(indices)


def test_fortran_order_and_several_inputs(tmp_path):
    z = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    path = npz(tmp_path / "d.npz", x=np.asfortranarray(RAW), z=np.asfortranarray(z))
    specs = [X, InputSpec("z", F32, (None, 4))]
    got = list(open_samples(path, specs).subset([1, 3]))
    np.testing.assert_array_equal(np.concatenate([s.inputs["z"] for s in got]), z[[1, 3]])
    np.testing.assert_array_equal(np.concatenate([s.inputs["x"] for s in got]), RAW[[1, 3]])


def test_an_npz_larger_than_memory_is_streamed(tmp_path):
    big = np.zeros((64, 1 << 18), np.float32)  # 64 MiB in rows of 1 MiB
    for compressed in (False, True):
        path = npz(tmp_path / f"{compressed}.npz", compressed, x=big)
        tracemalloc.start()
        assert sum(1 for _ in open_samples(path, [InputSpec("x", F32, (1, 1 << 18))])) == 64
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12 << 20


def test_several_fitting_arrays_ask_for_a_name(tmp_path):
    path = npz(tmp_path / "d.npz", a=RAW, b=RAW + 1, y=np.zeros(5))
    with pytest.raises(DataError, match=r"several arrays fit.*: a \[[^y]*Write 'd.npz#a' or 'd.npz#b'"):
        open_samples(path, [X])
    assert next(iter(open_samples(f"{path}#b", [X]))).inputs["x"][0, 0, 0] == 1
    with pytest.raises(DataError, match="no array 'c'; found a, b, y"):
        open_samples(f"{path}#c", [X])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"q": RAW[:, :, :2]}, r"no array fits input 'x' \[1, 2, 3\].*found q \[5, 2, 2\] uint8"),
        ({"x": RAW[:, :, :2]}, r"expected samples of shape \[1, 2, 3\], found \[2, 2\]"),
        ({"x": RAW[:0]}, "empty"),
        ({"x": np.float32(3)}, "single number"),
        ({}, "empty"),
    ],
)
def test_unfit_npz_is_refused_when_opened(tmp_path, arrays, message):
    with pytest.raises(DataError, match=message):
        open_samples(npz(tmp_path / "d.npz", **arrays), [X])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_name_sample_and_input(tmp_path, bad):
    x = RAW.astype(np.float32)
    x[3, 1, 2] = bad
    with pytest.raises(DataError, match="sample '000003', input 'x': 1 of 6 values are NaN or infinite"):
        list(open_samples(npz(tmp_path / "d.npz", x=x), [X]))


@pytest.mark.parametrize(
    ("value", "dtype", "fits"),
    [
        (np.int64(2**24), np.float32, True),
        (np.int64(2**24 + 1), np.float32, False),
        (np.int64(2**53 + 1), np.float64, False),
        (np.int8(-1), np.uint8, False),
        (np.float32(2.0), np.int64, True),
        (np.float32(2.5), np.int64, False),
        (np.uint64(2**64 - 1), np.int64, False),
        (np.float64(0.1), np.float32, True),
        (np.float64(1e300), np.float32, False),
        (np.float32(70000), np.float16, False),
        (np.bool_(True), np.float32, True),
        (np.str_("a"), np.float32, False),
        (np.complex64(1), np.float32, False),
    ],
)
def test_casts_are_exact_or_refused(value, dtype, fits):
    source = open_samples([np.full((1, 2), value)], [InputSpec("x", np.dtype(dtype), (1, 2))])
    if fits:
        assert next(iter(source)).inputs["x"][0, 0] == np.dtype(dtype).type(value)
    else:
        with pytest.raises(DataError, match="sample '000000', input 'x'"):
            list(source)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header() + b"\0" * 119, "promises 120 bytes"),
        (header(shape=(5, 2, 3 * 10**12)) + b"\0" * 120, "promises"),
        (header(shape=(-5, 2, 3)), "negative size"),
        (header(dtype="|O") + b"\0" * 240, "plain values"),
        (b"not an array", "damaged .npy header"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "damaged .npy header"),
        (b"", "damaged .npy header"),
    ],
)
def test_lying_headers_are_refused(tmp_path, data, message):
    with pytest.raises(DataError, match=message):
        open_samples(zipped(tmp_path / "d.npz", x=data), [X])
    (tmp_path / "npy").mkdir()
    (tmp_path / "npy" / "a.npy").write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(open_samples(tmp_path / "npy", [X]))


@pytest.mark.parametrize("compressed", [False, True])
def test_any_damage_to_an_npz_is_a_data_error_or_unseen(tmp_path, compressed):
    path = npz(tmp_path / "d.npz", compressed, x=RAW, y=np.arange(5))
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    cases = [good[:n] for n in range(0, len(good), 11)]
    for position in range(len(good)):
        cases.append(good[:position] + bytes([good[position] ^ int(rng.integers(1, 256))]) + good[position + 1 :])
    refused = 0
    for data in cases:
        path.write_bytes(data)
        try:
            list(open_samples(path, [X]))
        except DataError:
            refused += 1
    assert refused > len(cases) / 2


def test_python_objects_are_never_loaded(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="plain values"):
        open_samples(path, [X])


def test_iterables_of_all_kinds_agree():
    rows = list(RAW)
    forms: list[Any] = [
        rows,
        [{"x": row} for row in rows],
        [Sample(f"{i:06d}", {"x": row}) for i, row in enumerate(rows)],
        (row for row in rows),
    ]
    for form in forms:
        got = list(open_samples(form, [X]))
        np.testing.assert_array_equal(np.concatenate([s.inputs["x"] for s in got]), RAW)
    assert len({open_samples(form, [X]).digest for form in forms[:3]}) == 1
    assert open_samples([*rows[:4], rows[3]], [X]).digest != open_samples(rows, [X]).digest


def test_one_shot_iterators_say_so():
    source = open_samples(iter(list(RAW)), [X])
    assert source.count is None
    with pytest.raises(DataError, match="no digest"):
        _ = source.digest
    assert len(list(source)) == 5
    with pytest.raises(DataError, match="used up"):
        list(source)
    assert [s.id for s in open_samples(iter(list(RAW)), [X]).subset([4, 1])] == ["000001", "000004"]
    with pytest.raises(DataError, match="index 7 is outside the data set of 5"):
        list(open_samples(iter(list(RAW)), [X]).subset([7]))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"q": RAW[0]}, "input 'x' is missing; found 'q'"),
        ("text", "a str is not a sample"),
        (RAW[0].T, r"expected shape \[1, 2, 3\], found \[3, 2\]"),
        (np.zeros((3, 2, 2)), r"expected shape"),
        (np.array([[None] * 3] * 2), "not numeric"),
    ],
)
def test_bad_items_name_the_sample(item, message):
    with pytest.raises(DataError, match=f"sample '000000'.*{message}"):
        list(open_samples([item], [X]))


def test_a_wrong_layout_is_recognised():
    spec = InputSpec("x", F32, (1, 3, 8, 9))
    with pytest.raises(DataError, match=r"Transposing \[H, W, C\] to \[C, H, W\] would fit"):
        list(open_samples([np.zeros((8, 9, 3))], [spec]))


def test_empty_iterables_are_refused():
    with pytest.raises(DataError, match="empty"):
        open_samples([], [X])
    with pytest.raises(DataError, match="empty"):
        list(open_samples(iter([]), [X]))


def test_dimensions_of_one_are_added():
    spec = InputSpec("x", F32, (None, 28, 28, 1))
    assert next(iter(open_samples([np.zeros((28, 28))], [spec]))).inputs["x"].shape == (1, 28, 28, 1)
    with pytest.raises(DataError, match="expected shape"):
        list(open_samples([np.zeros((28 * 28,))], [spec]))


def test_npy_folders(tmp_path):
    z = InputSpec("z", F32, (1,))
    for i in range(3):
        for name, folder in (("one", tmp_path / "one"), ("x", tmp_path / "two" / "x")):
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"s{i}.npy", RAW[i])
            del name
        (tmp_path / "two" / "z").mkdir(exist_ok=True)
        np.save(tmp_path / "two" / "z" / f"s{i}.npy", np.float32(i))
        (tmp_path / "flat").mkdir(exist_ok=True)
        np.save(tmp_path / "flat" / f"s{i}.x.npy", RAW[i])
        np.save(tmp_path / "flat" / f"s{i}.z.npy", np.float32(i))
    for folder, specs in (("one", [X]), ("two", [X, z]), ("flat", [X, z])):
        got = list(open_samples(tmp_path / folder, specs))
        assert [s.id for s in got] == ["s0", "s1", "s2"]
        np.testing.assert_array_equal(np.concatenate([s.inputs["x"] for s in got]), RAW[:3])
        if len(specs) == 2:
            assert [float(s.inputs["z"][0]) for s in got] == [0, 1, 2]
    (tmp_path / "flat" / "s1.z.npy").unlink()
    with pytest.raises(DataError, match="sample 's1' has no file for input 'z'"):
        open_samples(tmp_path / "flat", [X, z])
    (tmp_path / "one" / "labels.csv").write_text("file,label\ns0.npy,4\ns2.npy,5\n")
    assert [(s.id, int(s.labels["label"])) for s in open_samples(tmp_path / "one", [X])] == [
        ("s0", 4),
        ("s2", 5),
    ]


def test_digest_follows_contents_labels_and_specs_and_not_the_place(tmp_path):
    def make(folder, value=0, label=1):
        folder.mkdir()
        np.save(folder / "a.npy", np.full((2, 3), value, np.uint8))
        (folder / "labels.csv").write_text(f"file,label\na.npy,{label}\n")
        return folder

    plain = open_samples(make(tmp_path / "1"), [X]).digest
    assert open_samples(make(tmp_path / "2"), [X]).digest == plain
    assert open_samples(make(tmp_path / "3", value=1), [X]).digest != plain
    assert open_samples(make(tmp_path / "4", label=2), [X]).digest != plain
    assert open_samples(tmp_path / "1", [InputSpec("x", np.dtype(np.uint8), (1, 2, 3))]).digest != plain


def test_what_is_no_data_set(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        open_samples(tmp_path / "gone", [X])
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match="not a data set"):
        open_samples(tmp_path / "a.txt", [X])
    with pytest.raises(DataError, match="empty"):
        open_samples(tmp_path, [X], Preprocess())
    with pytest.raises(DataError, match="no input"):
        open_samples([RAW[0]], [])


def test_a_scalar_input_stays_a_scalar():
    sample = next(iter(open_samples([{"rate": np.array(16000)}], [InputSpec("rate", np.dtype(np.int64), ())])))
    assert sample.inputs["rate"].shape == ()
