"""A home of its own for every test, and small archives that look like the vendor's."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.sdk.download import file_sha256
from dovetail.sdk.pinned import VERISILICON, PinnedWheel

Entry = tuple[str, bytes | str]
"""Name and content; a str is where a link leads."""

SDK = VERISILICON.sdk_folder
WHOLE: tuple[Entry, ...] = (
    (f"{SDK}/include/ovxlib/vsi_nn_pub.h", b"#pragma once\n"),
    (f"{SDK}/include/CL/cl_viv_vx_ext.h", b"\n"),
    (f"{SDK}/include/HAL/gc_hal.h", b"not wanted\n"),
    (f"{SDK}/lib/libovxlib.so", b"library"),
    (f"{SDK}/lib/libOpenVX.so.1.3.0", b"library"),
    (f"{SDK}/lib/libOpenVX.so", "libOpenVX.so.1.3.0"),
    (f"{SDK}/lib/libtim-vx.so", b"not wanted"),
    (f"{SDK}/include/tim-vx/tim/vx/graph.h", b"not wanted"),
    ("vsi_sdk/build/install/lib/other.so", b"not wanted"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the data folder into the test's own folder."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("VIVANTE_SDK_DIR", "TIM_VX_INSTALL_DIR", "DOVETAIL_VSI_SDK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data" / "dovetail"


def tarball(entries: tuple[Entry, ...]) -> bytes:
    """Return a .tar.gz with these entries."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[[tuple[Entry, ...]], tuple[Path, PinnedWheel]]:
    """Return a maker of small wheels with what the installer would pin for them."""

    def make(entries: tuple[Entry, ...] = WHOLE) -> tuple[Path, PinnedWheel]:
        path = tmp_path / "acuitylite-6.57.1-cp310-cp310-manylinux2010_x86_64.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(VERISILICON.archive, tarball(entries))
        return path, replace(VERISILICON, sha256=file_sha256(path), size_bytes=path.stat().st_size)

    return make
