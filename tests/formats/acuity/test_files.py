"""inputmeta.yml, golden tensors, and the comparison that one good half cannot fool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.spatial import distance

from dovetail.errors import FormatError
from dovetail.formats.acuity import (
    compare_files,
    compare_folders,
    lint_inputmeta,
    parse_tensor_name,
    read_inputmeta,
    read_tensor_file,
    similarity,
    tensor_file_name,
    write_inputmeta,
)
from dovetail.formats.acuity.similarity import Grouping, parse_slices
from dovetail.formats.acuity.tensors import TensorFile
from dovetail.ir import AnyArray

from .network_graph import GOLDEN


def test_the_sample_inputmeta_goes_there_and_back() -> None:
    content = (GOLDEN / "ymini_inputmeta.yml").read_bytes()
    ports = read_inputmeta(content, "f")
    assert (ports[0].lid, ports[0].scale, ports[0].shape) == ("images_39", (0.0039,) * 3, (1, 3, 64, 64))
    without_comments = "".join(line for line in content.decode().splitlines(keepends=True) if not line.startswith("#"))
    assert write_inputmeta(ports) == without_comments
    assert lint_inputmeta(content, "f") == ()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("    - lid", "\t- lid", "TAB"),
        ("        - 0.0039\n        - 0.0039\n        - 0.0039\n", "        - 1\n", "UNEDITED"),
        ("        - 0.0039\n        - 0.0039\n        - 0.0039\n", "        - 0.1\n        - 0.1\n", "CHANNELS"),
        ("        - 0.0039\n        - 0.0039\n        - 0.0039\n", "        - 255\n", "SCALE"),
        ("category: image", "category: picture", "UNKNOWN_WORD"),
        ("        - 64\n", "        - x\n", "NUMBER"),
        ("databases:", "database:", "SHAPE"),
    ],
)
def test_mistakes_in_inputmeta_are_named(old: str, new: str, code: str) -> None:
    text = (GOLDEN / "ymini_inputmeta.yml").read_text().replace(old, new, 1)
    text = text.replace("      - 64\n", "      - x\n", 1) if code == "NUMBER" else text
    assert code in {item.code for item in lint_inputmeta(text.encode(), "f")}


@pytest.mark.parametrize(("old", "key"), [("      - 64\n", "shape"), ("        - 0.0039\n", "scale")])
def test_numbers_beyond_any_float_in_inputmeta_are_named(old: str, key: str) -> None:
    text = (GOLDEN / "ymini_inputmeta.yml").read_text()
    assert old in text
    long = text.replace(old, f"{old[: old.index('-')]}- 1{'0' * 350}\n", 1)
    with pytest.raises(FormatError, match=f"NUMBER: {key}: "):
        read_inputmeta(long.encode(), "f")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "iter_0_attach_output_out0_0_out0_1_25200_85.tensor",
            TensorFile("attach_output_out0_0", "out0", (1, 25200, 85), 0),
        ),
        ("iter_12_c4.sg_26_out0_1_8.qnt.tensor", TensorFile("c4.sg_26", "out0", (1, 8), 12, quantised=True)),
        ("hs_10_out0_nchw_1_3_8_8.npy", TensorFile("hs_10", "out0", (1, 3, 8, 8), layout="nchw", kind="npy")),
        ("notes.txt", None),
        ("iter_0_x.tensor", None),
    ],
)
def test_names_of_tensors(name: str, wanted: TensorFile | None) -> None:
    assert parse_tensor_name(name) == wanted
    if wanted is not None:
        assert wanted.name == name


def test_the_name_of_the_guide() -> None:
    assert tensor_file_name("attach_output/out0_0", "out0", (1, 25200, 85)) == (
        "iter_0_attach_output_out0_0_out0_1_25200_85.tensor"
    )


def _write_text(folder: Path, lid: str, values: AnyArray) -> Path:
    """Write values as inference does: as text, one a line in C order, under the name that it gives."""
    path = folder / tensor_file_name(lid, "out0", values.shape)
    np.savetxt(path, values.reshape(-1), fmt="%.9g")
    return path


def test_tensors_are_read_in_every_form(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.float32).reshape(1, 4, 6) / 7
    text = _write_text(tmp_path, "a/b_1", values)
    np.testing.assert_array_equal(read_tensor_file(text).astype(np.float32), values)
    np.save(tmp_path / "x_out0_1_4_6.npy", values)
    np.testing.assert_array_equal(read_tensor_file(tmp_path / "x_out0_1_4_6.npy"), values)
    values.tofile(tmp_path / "x_out0_1_4_6.bin")
    np.testing.assert_array_equal(read_tensor_file(tmp_path / "x_out0_1_4_6.bin"), values)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("x_out0_1_4.tensor", b"1\n2\n3\n", "SHAPE"),
        ("x_out0_1_3.tensor", b"1\nabc\n3\n", "NUMBER"),
        ("x_out0_1_3.npy", b"\x80\x04\x95pickle", "NUMBER"),
        ("x_out0_1_3.bin", b"12345", "SHAPE"),
    ],
)
def test_bad_tensors_are_refused(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_tensor_file(tmp_path / name)
    assert caught.value.code == code


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x_out0_1.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match="NUMBER"):
        read_tensor_file(tmp_path / "x_out0_1.npy")


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=30))
@example([(3.4e-159, 2181.0)])
def test_the_two_figures_are_scipys(pairs: list[tuple[float, float]]) -> None:
    one, other = (np.array(values) for values in zip(*pairs, strict=True))
    found = similarity(one, other)
    # Powers below the smallest number are none.
    sizes = np.abs(one).max(), np.abs(one - other).max()
    assert np.isfinite(found.sqnr_db) == bool(min(sizes)) or min(sizes) < 1e-150
    assert found.euclidean_distance == pytest.approx(distance.euclidean(one, other), rel=1e-12)
    # SciPy multiplies the squares of both lengths.
    if np.linalg.norm(one) > 1e-70 and np.linalg.norm(other) > 1e-70:
        assert found.cos_similarity == pytest.approx(1 - distance.cosine(one, other), abs=1e-9)


def _detector() -> tuple[np.ndarray, np.ndarray]:
    """Boxes in pixels that are nearly right beside scores that are all zero, as the notes measured it."""
    rng = np.random.default_rng(0)
    golden = np.concatenate([rng.uniform(0, 643, (1, 192, 4)), rng.uniform(0, 1, (1, 192, 5))], axis=2)
    test = golden.copy()
    test[..., :4] += rng.normal(0, 1, (1, 192, 4))
    test[..., 4:] = 0
    return golden, test


def test_one_good_half_hides_nothing(tmp_path: Path) -> None:
    golden, test = _detector()
    found = similarity(golden, test)
    assert found.cos_similarity > 0.9999
    assert found.worst_cosine == 0.0
    named = similarity(golden, test, parse_slices(["box=0:4", "class=4:"]))
    assert (named.worst, named.worst_cosine) == ("class", 0.0)
    assert named.lines()[0].startswith("euclidean_distance ")
    assert named.lines()[1] == f"cos_similarity {named.cos_similarity:.6f}"


def test_folders_are_paired_by_name(tmp_path: Path) -> None:
    golden, test = _detector()
    for folder, values in (("golden", golden), ("test", test)):
        (tmp_path / folder).mkdir()
        _write_text(tmp_path / folder, "output_1", values)
    found = compare_folders(tmp_path / "golden", tmp_path / "test", Grouping(axis=2))
    assert list(found) == ["iter_0_output_1_out0_1_192_9.tensor"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="NO_PAIR"):
        compare_folders(tmp_path / "golden", tmp_path / "empty")


def test_sizes_must_match_and_zeros_are_defined(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="SHAPE"):
        similarity(np.ones(3), np.ones(4))
    assert similarity(np.zeros(3), np.zeros(3)).cos_similarity == 1.0
    assert similarity(np.zeros(3), np.ones(3)).cos_similarity == 0.0
    assert similarity(np.ones(3), np.array([1.0, np.nan, 1.0])).cos_similarity == 0.0
    with pytest.raises(FormatError, match="SLICE"):
        similarity(np.ones((2, 3)), np.ones((2, 3)), parse_slices(["x=3:5"]))
    (tmp_path / "a.tensor").write_text("1 2 3")
    assert compare_files(tmp_path / "a.tensor", tmp_path / "a.tensor").exact_share == 1.0
