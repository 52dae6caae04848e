"""Golden folders: what is read is what was written, or nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dovetail.compare import load_golden, save_golden
from dovetail.errors import DataError

NAMES = ["../../x", "a/b:0", "/etc/passwd", "", "..", "a" * 300, "ü\n", "A", "a", "con"]


def tensors():
    rng = np.random.default_rng(0)
    for sample in ("img/1.jpg", "../2"):
        yield sample, {name: rng.standard_normal((2, 3)).astype(np.float32) for name in NAMES}


def test_round_trip_with_hostile_names_stays_inside(tmp_path):
    folder = tmp_path / "deep" / "golden"
    save_golden(folder, tensors())
    for (sample, written), (expected_sample, expected) in zip(load_golden(folder), tensors(), strict=True):
        assert sample == expected_sample
        assert list(written) == NAMES
        for name in NAMES:
            np.testing.assert_array_equal(written[name], expected[name])
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["golden"]
    assert len(list(folder.rglob("*.npy"))) == 2 * len(NAMES)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float16, np.bool_, np.float64])
def test_types_and_orders_survive(tmp_path, dtype, order):
    array = np.asarray(np.arange(24).reshape(2, 3, 4) % 2, dtype=dtype, order=order)
    scalar = np.array(3, dtype=dtype)
    read = save_golden(tmp_path / "g", [("s", {"a": array, "b": scalar})]).read("s")
    np.testing.assert_array_equal(read["a"], array)
    assert read["a"].dtype == dtype
    assert read["b"].shape == ()


def test_every_changed_byte_is_noticed(tmp_path):
    folder = tmp_path / "g"
    save_golden(folder, [("s", {"a": np.arange(4, dtype=np.int16)})])
    path = next(folder.rglob("*.npy"))
    good = path.read_bytes()
    for position in range(0, len(good), 7):
        path.write_bytes(good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :])
        with pytest.raises(DataError, match="damaged"):
            load_golden(folder)
    path.write_bytes(good[:-1])
    with pytest.raises(DataError, match="damaged"):
        load_golden(folder)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        load_golden(folder)


def test_a_manifest_cannot_point_outside(tmp_path):
    folder = tmp_path / "g"
    save_golden(folder, [("s", {"a": np.zeros(1)})])
    manifest = json.loads((folder / "manifest.json").read_text())
    for file in ("../secret.npy", "/etc/passwd", "s000000/../../x.npy", "s000000/t00000-a.npy\n"):
        manifest["samples"][0]["tensors"][0]["file"] = file
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(DataError, match="is no golden file"):
            load_golden(folder)


def test_links_are_refused(tmp_path):
    folder = tmp_path / "g"
    save_golden(folder, [("s", {"a": np.zeros(1)})])
    path = next(folder.rglob("*.npy"))
    path.rename(tmp_path / "moved.npy")
    path.symlink_to(tmp_path / "moved.npy")
    with pytest.raises(DataError, match="a link"):
        load_golden(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "dovetail.golden/2", "samples": []}', '{"schema": 1}'])
def test_damaged_manifests_are_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json"):
        load_golden(tmp_path)


def test_an_interrupted_save_is_no_set(tmp_path):
    def broken():
        yield "s", {"a": np.zeros(1)}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_golden(tmp_path / "g", broken())
    with pytest.raises(DataError, match="no golden tensors here"):
        load_golden(tmp_path / "g")


def test_save_refuses_what_it_cannot_keep(tmp_path):
    with pytest.raises(DataError, match="cannot be kept"):
        save_golden(tmp_path / "o", [("s", {"a": np.array([None])})])
    with pytest.raises(DataError, match="occurs twice"):
        save_golden(tmp_path / "t", [("s", {}), ("s", {})])
    with pytest.raises(DataError, match="no golden tensor was given"):
        save_golden(tmp_path / "n", [])
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    with pytest.raises(DataError, match="not empty"):
        save_golden(tmp_path / "used", tensors())
