"""What was converted once is found by content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dovetail.environments import cache, cache_key, clear_cache, find_converted, find_environment, keep_converted


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def _file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_keys_follow_contents_options_and_packages(tmp_path: Path) -> None:
    torch, paddle = find_environment("torch"), find_environment("paddle")
    one = _file(tmp_path, "a.pt2", b"one")
    (tmp_path / "elsewhere").mkdir()
    same = _file(tmp_path / "elsewhere", "a.pt2", b"one")
    other = _file(tmp_path, "b.pt2", b"two")
    key = cache_key(torch, [one], {"x": 1})
    assert key == cache_key(torch, [same], {"x": 1})
    assert (
        len({key, cache_key(torch, [other], {"x": 1}), cache_key(torch, [one], {}), cache_key(paddle, [one], {})}) == 4
    )


def test_kept_found_and_cleared(tmp_path: Path) -> None:
    assert find_converted("k") is None
    path = keep_converted("k", _file(tmp_path, "model.onnx", b"abc"))
    assert find_converted("k") == path
    assert path.read_bytes() == b"abc"
    assert clear_cache() == 3
    assert find_converted("k") is None


def test_the_longest_unused_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_CACHE_BYTES", 25)
    for place, name in enumerate("abc"):
        path = keep_converted(name, _file(tmp_path, "model.onnx", bytes(10)))
        if path.exists():
            os.utime(path, (place, place))
    assert [find_converted(name) is not None for name in "abc"] == [False, True, True]
