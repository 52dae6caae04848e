"""Installing: from a file, twice, with a wrong checksum, from a hostile archive, offline, without a compiler."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.errors import DovetailError
from dovetail.sdk import InstallRequest, build, find_verisilicon, install, install_verisilicon, installation_folder
from dovetail.sdk.location import SdkFolder, verisilicon_folder
from dovetail.sdk.pinned import PinnedWheel

from .conftest import SDK, WHOLE, Entry, tarball

Wheel = Callable[..., tuple[Path, PinnedWheel]]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[SdkFolder]:
    """Replace the compiler, which a bare machine lacks; the archives hold no real library. Return what was built."""
    calls: list[SdkFolder] = []

    def fake(folder: SdkFolder) -> None:
        folder.shim.parent.mkdir(parents=True, exist_ok=True)
        folder.shim.write_bytes(b"shim")
        calls.append(folder)

    monkeypatch.setattr(install, "find_compiler", lambda: "c++")
    monkeypatch.setattr(install, "build_shim", fake)
    return calls


def leftovers() -> list[str]:
    folder = installation_folder().parent
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_a_wheel_is_checked_unpacked_and_built(wheel: Wheel, built: list[SdkFolder]) -> None:
    path, pinned = wheel()
    made = install_verisilicon(InstallRequest(source=path, wheel=pinned, self_test=lambda: "seen"))
    kept = {str(item.relative_to(made.folder.sdk)) for item in made.folder.sdk.rglob("*") if not item.is_dir()}
    assert kept == {
        "include/ovxlib/vsi_nn_pub.h",
        "include/CL/cl_viv_vx_ext.h",
        "lib/libovxlib.so",
        "lib/libOpenVX.so.1.3.0",
        "lib/libOpenVX.so",
    }
    assert made.self_test == "seen"
    assert find_verisilicon().usable
    assert leftovers() == [installation_folder().name]


def test_the_second_time_does_nothing(wheel: Wheel, built: list[SdkFolder]) -> None:
    path, pinned = wheel()
    install_verisilicon(InstallRequest(source=path, wheel=pinned))

    def fail() -> str:
        raise AssertionError("tested again")

    made = install_verisilicon(InstallRequest(source=Path("/nowhere"), wheel=pinned, self_test=fail))
    assert made.steps == ()
    assert len(built) == 1


def test_a_wrong_checksum_is_refused_and_nothing_stays(wheel: Wheel, built: list[SdkFolder]) -> None:
    path, pinned = wheel()
    with pytest.raises(DovetailError, match="SHA-256"):
        install_verisilicon(InstallRequest(source=path, wheel=replace(pinned, sha256="0" * 64)))
    assert leftovers() == []
    assert built == []
    assert path.exists()


def test_a_wrong_download_is_deleted(wheel: Wheel, built: list[SdkFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    path, pinned = wheel()

    def fetch(_wheel: PinnedWheel, folder: Path, _progress: object) -> Path:
        return Path(shutil.copy(path, folder))

    monkeypatch.setattr(install, "download_wheel", fetch)
    with pytest.raises(DovetailError, match="SHA-256"):
        install_verisilicon(InstallRequest(wheel=replace(pinned, sha256="f" * 64)))
    assert leftovers() == []


@pytest.mark.parametrize(
    "entry",
    [
        ("../outside", b"x"),
        ("/etc/outside", b"x"),
        (f"{SDK}/lib/../../../outside", b"x"),
        (f"{SDK}/lib/libevil.so", "/etc/passwd"),
        (f"{SDK}/lib/libevil.so", "../../outside"),
        (f"{SDK}/lib/libevil.so", "libnone.so"),
    ],
)
def test_hostile_archives_are_refused(entry: Entry, tmp_path: Path, built: list[SdkFolder]) -> None:
    path = tmp_path / "vsi_sdk.tar.gz"
    path.write_bytes(tarball((*WHOLE, entry)))
    with pytest.raises(DovetailError, match=r"leads"):
        install_verisilicon(InstallRequest(source=path))
    assert leftovers() == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("data", [b"", b"junk", tarball(WHOLE)[:200], tarball((("other/file", b"x"),))])
def test_damaged_archives_are_refused(data: bytes, tmp_path: Path, built: list[SdkFolder]) -> None:
    path = tmp_path / "vsi_sdk.tar.gz"
    path.write_bytes(data)
    with pytest.raises(DovetailError) as caught:
        install_verisilicon(InstallRequest(source=path))
    assert "\n" not in str(caught.value)
    assert leftovers() == []


def test_offline_is_one_clear_line(built: list[SdkFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(DovetailError, match="cannot be downloaded") as caught:
        install_verisilicon(InstallRequest())
    assert built == []
    assert "install from that file" in str(caught.value)
    assert caught.value.option == "source"
    assert "\n" not in str(caught.value)
    assert leftovers() == []


def test_without_a_compiler_the_package_is_named(wheel: Wheel, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pinned = wheel()
    monkeypatch.setattr(build.shutil, "which", lambda _name: None)
    with pytest.raises(DovetailError, match=r"apt-get install g\+\+"):
        install_verisilicon(InstallRequest(source=path, wheel=pinned))
    assert leftovers() == []


def test_another_sdk_is_taken_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIVANTE_SDK_DIR", str(tmp_path / "board"))
    assert not find_verisilicon().usable
    assert "VIVANTE_SDK_DIR" in find_verisilicon().reason
    with pytest.raises(DovetailError, match="VIVANTE_SDK_DIR"):
        install_verisilicon(InstallRequest())


def test_an_older_version_lies_beside_the_newest_with_its_timvx(
    wheel: Wheel, built: list[SdkFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pinned = wheel()
    newest = install_verisilicon(InstallRequest(source=path, wheel=pinned)).folder
    older = replace(pinned, version="6.42.0", has_timvx=True)
    made = install_verisilicon(InstallRequest(source=path, wheel=older)).folder
    assert leftovers() == ["verisilicon-6.42.0", "verisilicon-6.57.1"]
    assert verisilicon_folder() == newest
    monkeypatch.setenv("DOVETAIL_VSI_SDK", "6.42.0")
    assert verisilicon_folder() == made
    assert (made.sdk / "include/tim/vx/graph.h").is_file()
    assert not (newest.sdk / "lib/libtim-vx.so").exists()
    monkeypatch.setenv("TIM_VX_INSTALL_DIR", str(made.sdk))
    above = install_verisilicon(InstallRequest(wheel=older)).folder
    assert above.shim not in (made.shim, newest.shim)
    assert above.library == made.sdk / "lib/libtim-vx.so"
    assert built == [newest, made, above]


def test_a_version_is_a_name_and_never_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    root = installation_folder().parent
    for hostile in ("../../etc", "/etc", "..", "a/b"):
        monkeypatch.setenv("DOVETAIL_VSI_SDK", hostile)
        assert installation_folder().parent == root
        assert not find_verisilicon().usable


def test_timvx_that_is_not_there_is_named(
    wheel: Wheel, built: list[SdkFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pinned = wheel()
    monkeypatch.setenv("TIM_VX_INSTALL_DIR", "/nowhere/tim-vx")
    with pytest.raises(DovetailError, match=r"/nowhere/tim-vx/include/tim/vx/graph.h"):
        install_verisilicon(InstallRequest(source=path, wheel=pinned))
    assert built == []
    assert "/nowhere/tim-vx" in find_verisilicon().reason
