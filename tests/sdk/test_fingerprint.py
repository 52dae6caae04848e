"""One mark for one SDK: its contents, wherever it lies and whenever it was copied."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.sdk.location import SdkFolder, fingerprint, verisilicon_folder


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """Return a folder that looks like an SDK."""
    folder = tmp_path / "sdk"
    for name in ("include/ovxlib/vsi_nn_pub.h", "include/CL/cl_viv_vx_ext.h", "lib/libovxlib.so", "lib/libEmulator.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode() * 100)
    return folder


def test_a_copy_is_the_same_sdk(sdk: Path, tmp_path: Path) -> None:
    shutil.copytree(sdk, tmp_path / "copy")
    (tmp_path / "copy" / "lib" / "libovxlib.so").touch()
    assert fingerprint(sdk) == fingerprint(tmp_path / "copy")


@pytest.mark.parametrize("name", ["lib/libovxlib.so", "lib/libEmulator.so", "include/ovxlib/vsi_nn_pub.h"])
def test_one_byte_makes_another_sdk(sdk: Path, name: str) -> None:
    before = fingerprint(sdk)
    content = bytearray((sdk / name).read_bytes())
    content[7] ^= 1
    (sdk / name).write_bytes(content)
    assert fingerprint(sdk) != before


def test_the_backend_and_the_shim_follow_the_same_mark(sdk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def marks() -> tuple[str, str]:
        return VsiBackend(SdkFolder(sdk, sdk / "shim", "test")).version, verisilicon_folder().shim.parent.name

    monkeypatch.setenv("VIVANTE_SDK_DIR", str(sdk))
    version, shim = marks()
    assert version.endswith(f".{shim[:8]}")
    library = sdk / "lib" / "libovxlib.so"
    facts = library.stat()
    library.write_bytes(b"x" * facts.st_size)
    os.utime(library, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    changed, other = marks()
    assert changed != version
    assert other != shim


def test_what_is_not_there_has_a_mark_too(tmp_path: Path) -> None:
    assert len(fingerprint(tmp_path / "none")) == 16
