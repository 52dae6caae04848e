"""Bundles as one file: there and back, the same bytes, and every wrong file refused in one line."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dovetail.bundle import Bundle, export_bundle, import_bundle
from dovetail.bundle import archive as room
from dovetail.compile import compile_model
from dovetail.errors import BundleError
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.testing.networks import Network


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    net = Network()
    graph = net.graph(net.op("Relu", net.conv(net.input("x", 1, 2, 4, 4), 2)))
    plan = Plan(graph.digest, Placement("cpu", Precision.FP32))
    return compile_model(partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {}))))


def test_there_and_back(bundle: Bundle, tmp_path: Path) -> None:
    for name in ("a.dvb", "b.dvb"):
        export_bundle(bundle, tmp_path / name)
    assert import_bundle(tmp_path / "a.dvb") == bundle
    assert (tmp_path / "a.dvb").read_bytes() == (tmp_path / "b.dvb").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.dvb", "b.dvb"]
    export_bundle(bundle, tmp_path / "a.dvb")


def test_every_damage_is_one_line(bundle: Bundle, tmp_path: Path) -> None:
    export_bundle(bundle, tmp_path / "a.dvb")
    whole = (tmp_path / "a.dvb").read_bytes()
    middle = len(whole) // 2
    spoilt = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
    for bad in (b"", whole[:100], whole[:-30], spoilt, b"PK\x03\x04" + bytes(100)):
        (tmp_path / "bad.dvb").write_bytes(bad)
        with pytest.raises(BundleError, match=r"bad\.dvb") as caught:
            import_bundle(tmp_path / "bad.dvb")
        assert "\n" not in str(caught.value)
    with pytest.raises(BundleError, match="cannot be read"):
        import_bundle(tmp_path / "none.dvb")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "folder/", ".hidden", "a/../../b"])
def test_no_name_leads_out(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.dvb", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(BundleError, match="no part of a bundle"):
        import_bundle(tmp_path / "evil.dvb")
    assert [path.name for path in tmp_path.iterdir()] == ["evil.dvb"]


@pytest.mark.parametrize(
    ("local_at", "central_at", "value", "says"),
    [
        (8, 10, 99, "not a bundle, or damaged: .*compression"),  # a method that nobody has
        (6, 8, 1, "not a bundle, or damaged: .*password"),  # encrypted
        (6, 8, 0x800, "not a bundle, or damaged: .*decode"),  # a name in UTF-8 that is none
    ],
)
def test_what_an_archive_may_hold_and_a_bundle_never_does(
    tmp_path: Path, local_at: int, central_at: int, value: int, says: str
) -> None:
    path = tmp_path / "odd.dvb"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("plan.json", "x")
    raw = path.read_bytes().replace(b"plan", b"pl\xffn")
    for header, at in ((raw.index(b"PK\x03\x04"), local_at), (raw.index(b"PK\x01\x02"), central_at)):
        raw = raw[: header + at] + value.to_bytes(2, "little") + raw[header + at + 2 :]
    path.write_bytes(raw)
    with pytest.raises(BundleError, match=says):
        import_bundle(path)


def test_an_archive_that_would_fill_the_disk_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    half = 2**32 - 2
    for sizes, says in (((half, half, 4), "missing"), ((half, half, 5), "larger than any bundle")):
        path = _claiming(tmp_path / "bomb.dvb", sizes)
        with pytest.raises(BundleError, match=says):
            import_bundle(path)


def test_an_archive_of_too_many_files_is_refused(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_bundle(bundle, tmp_path / "a.dvb")
    files = len(zipfile.ZipFile(tmp_path / "a.dvb").namelist())
    monkeypatch.setattr(room, "_MAX_FILES", files)
    assert import_bundle(tmp_path / "a.dvb") == bundle
    monkeypatch.setattr(room, "_MAX_FILES", files - 1)
    with pytest.raises(BundleError, match="larger than any bundle"):
        import_bundle(tmp_path / "a.dvb")


def _claiming(path: Path, sizes: tuple[int, ...]) -> Path:
    """Write an archive whose list says that its files, a byte each, have these sizes."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, _ in enumerate(sizes):
            archive.writestr(f"partition-{number}.blob", "x")
    raw, at = bytearray(path.read_bytes()), 0
    for size in sizes:
        at = raw.index(b"PK\x01\x02", at) + 4
        raw[at + 20 : at + 24] = size.to_bytes(4, "little")
    path.write_bytes(raw)
    return path


def test_files_have_no_date_but_the_earliest(bundle: Bundle, tmp_path: Path) -> None:
    export_bundle(bundle, tmp_path / "a.dvb")
    with zipfile.ZipFile(tmp_path / "a.dvb") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_an_archive_in_a_folder_that_is_not_there_yet(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "some" / "where" / ("a" * 200 + ".dvb")
    export_bundle(bundle, path)
    assert import_bundle(path) == bundle
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="cannot be written: "):
        export_bundle(bundle, tmp_path / "file" / "a.dvb")


def test_a_fault_inside_names_the_archive(bundle: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "a.dvb"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "{}")
    with pytest.raises(BundleError, match=r"a\.dvb/manifest\.json: malformed") as caught:
        import_bundle(path)
    assert str(caught.value).startswith(f"{path}/")


def test_another_file_is_left_alone(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(BundleError, match="not a bundle"):
        export_bundle(bundle, tmp_path / "letter.txt")
    assert (tmp_path / "letter.txt").read_text() == "Dear"
