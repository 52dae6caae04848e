"""Files and folders are written all or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dovetail.errors import DovetailError
from dovetail.files import check_ours, new_folder, write_file


def test_a_file_is_replaced_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "plan.json"
    write_file(path, '{"kind": "dovetail-plan", "n": 1}')
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DovetailError, match="No space left"):
        write_file(path, '{"kind": "dovetail-plan", "n": 2}')
    assert '"n": 1' in path.read_text()
    assert [item.name for item in path.parent.iterdir()] == ["plan.json"]


def test_an_interruption_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a.json", "{}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b"", b'{\n "schema": 1,\n "kind": "dovetail-ranges"', b"\x08\x0a\x12\x08dovetail:"]
)
def test_what_is_ours_or_empty_may_be_replaced(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    check_ours(tmp_path / "f")


@pytest.mark.parametrize("content", [b"x", b"\x08\x08\x12\x07pytorch", b'{"kind": "other"}'])
def test_what_is_not_ours_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(DovetailError, match="nothing in it says that dovetail made it"):
        check_ours(tmp_path / "f")


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DovetailError):
        check_ours(tmp_path / "f")


def test_a_folder_appears_only_when_the_body_succeeds(tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def fail() -> None:
        with new_folder(folder, lambda _: True) as draft:
            (draft / "half").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
    for text in ("one", "two"):
        with new_folder(folder, lambda _: True) as draft:
            (draft / text).write_text(text)
        assert [path.name for path in folder.iterdir()] == [text]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(DovetailError, match="did not make"), new_folder(folder, lambda _: False):
        pass


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("replace", [False, True])
def test_devices_and_pipes_stay_what_they_are(replace: bool, tmp_path: Path) -> None:
    (tmp_path / "device").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("device", "pipe"):
        with pytest.raises(DovetailError, match="is a device or a stream"):
            write_file(tmp_path / name, "{}", replace=replace)
    assert (tmp_path / "device").is_symlink()
    assert (tmp_path / "pipe").is_fifo()


def test_names_of_open_files_stay_what_they_are(tmp_path: Path) -> None:
    # As /dev/stdout is where standard output is a file.
    with (tmp_path / "open").open("w") as stream, pytest.raises(DovetailError, match="is a device or a stream"):
        write_file(Path(f"/proc/self/fd/{stream.fileno()}"), "{}")


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    write_file(tmp_path / "there" / "plan.json", '{"kind": "dovetail-plan", "n": 1}')
    (tmp_path / "link.json").symlink_to(tmp_path / "there" / "plan.json")
    write_file(tmp_path / "link.json", '{"kind": "dovetail-plan", "n": 2}')
    assert (tmp_path / "link.json").is_symlink()
    assert '"n": 2' in (tmp_path / "there" / "plan.json").read_text()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["plan.json"]


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DovetailError, match="no text in UTF-8"):
        write_file(tmp_path / "a.json", '{"model": "bad\udcff.onnx"}')
    assert list(tmp_path.iterdir()) == []
