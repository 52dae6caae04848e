"""Bills of materials: judged by CycloneDX's own schema, and by what is in the wheels."""

from __future__ import annotations

import hashlib
import json
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from dovetail.errors import BundleError
from dovetail.kit import write_board_wheel
from dovetail.kit.bill import SHIPPED, write_bills

ROOT = Path(__file__).parents[2]
HOST = """\
Metadata-Version: 2.4
Name: dovetail
Version: 1.2.3
Summary: A host.
License-Expression: Apache-2.0
Requires-Dist: numpy>=1.26
Requires-Dist: never-heard-of-it>=2; extra == 'odd'
Requires-Dist: dovetail[odd]; extra == 'all'
"""


def _validator() -> jsonschema.Draft7Validator:
    folder = files("cyclonedx.schema") / "_res"
    names = ("bom-1.6", "spdx", "jsf-0.82")
    found = [json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text(encoding="utf-8")) for name in names]
    places = [f"http://cyclonedx.org/schema/{name}.SNAPSHOT.schema.json" for name in names]
    pairs = zip(places, map(Resource.from_contents, found), strict=True)
    registry: Registry[Any] = Registry().with_resources(pairs)
    return jsonschema.Draft7Validator(found[0], registry=registry)


def _wheel(folder: Path, names: tuple[str, ...] = ()) -> Path:
    path = folder / "dovetail-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("dovetail-1.2.3.dist-info/METADATA", HOST)
        for name in names:
            archive.writestr(name, b"")
    return path


def test_the_board_s_wheel_has_a_bill_and_the_licence(tmp_path: Path) -> None:
    wheel = write_board_wheel(tmp_path)
    (path,) = write_bills(tmp_path)
    assert path == wheel.with_suffix(".cdx.json")
    bill = json.loads(path.read_text(encoding="utf-8"))
    assert list(_validator().iter_errors(bill)) == []
    root = bill["metadata"]["component"]
    assert root["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    assert {one["name"]: one["scope"] for one in bill["components"]} == {
        "numpy": "required",
        "onnxruntime": "optional",
        "ai-edge-litert": "optional",
        "flatbuffers": "optional",
    }
    with zipfile.ZipFile(wheel) as archive:
        (licence,) = [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
        assert archive.read(licence).decode() == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_what_is_shipped_and_needed_has_its_licence(tmp_path: Path) -> None:
    _wheel(tmp_path, ("dovetail/examples/digits/eval.npz", "dovetail/oip/messages.desc"))
    (path,) = write_bills(tmp_path)
    bill = json.loads(path.read_text(encoding="utf-8"))
    assert list(_validator().iter_errors(bill)) == []
    parts = {one["name"]: one for one in bill["components"]}
    assert {work.name for work in SHIPPED} < set(parts)
    assert parts[SHIPPED[0].name]["licenses"] == [{"license": {"id": "CC-BY-4.0"}}]
    assert parts[SHIPPED[0].name]["properties"][0]["value"] == "dovetail/examples/digits/eval.npz"
    assert "BSD-3-Clause" in json.dumps(parts["numpy"]["licenses"])
    assert parts["never-heard-of-it"]["scope"] == "optional"
    assert "licenses" not in parts["never-heard-of-it"]
    assert "dovetail" not in parts


def test_the_same_wheel_gives_the_same_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    _wheel(tmp_path)
    first = write_bills(tmp_path)[0].read_bytes()
    assert write_bills(tmp_path)[0].read_bytes() == first
    assert b"2023-11-14" in first


def test_every_file_of_data_in_the_repository_is_accounted_for() -> None:
    """A work of others that is added has to be listed, or named here as the project's own."""
    own = {"css", "desc", "h", "js", "json", "md", "onnx", "proto", "py", "txt", "typed", "cpp", "npz"}
    package = ROOT / "src" / "dovetail"
    shipped = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {path.suffix[1:] for path in shipped} <= own
    told = {path for work in SHIPPED for path in work.files.split()}
    marked = {
        f"dovetail/{path.relative_to(package)}"
        for path in shipped
        if path.suffix in (".js", ".css", ".proto", ".h", ".cpp")
        and any(word in path.read_text(encoding="utf-8") for word in ("github.com/", "Copyright (c)", "MIT License"))
    }
    assert marked <= told


def test_what_is_no_wheel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no wheel"):
        write_bills(tmp_path)
    (tmp_path / "dovetail-1.whl").write_bytes(b"no zip")
    with pytest.raises(BundleError, match="not a wheel"):
        write_bills(tmp_path)
