"""Bundles as one file: there and back, the same bytes, and every wrong file refused in one line."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dovetail.bundle import Bundle, export_bundle, import_bundle
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


def test_another_file_is_left_alone(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(BundleError, match="not a bundle"):
        export_bundle(bundle, tmp_path / "letter.txt")
    assert (tmp_path / "letter.txt").read_text() == "Dear"
