"""Bundles on disk: whole, or refused with a reason."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import work
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.backend.protocols import Blob
from dovetail.bundle import Bundle, CompiledPartition, load_bundle, save_bundle
from dovetail.bundle import directory as room
from dovetail.compile import compile_model
from dovetail.errors import BundleError
from dovetail.ir import DType, Quantization, TensorType
from dovetail.ir.precision import Precision
from dovetail.partition import partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.testing.networks import Network

REAL = TensorType(DType.F32, ("n", 3, None))
BYTES = TensorType(DType.I8, (1, 3), Quantization((0.5, 0.25, 0.125), (1, 0, -1), 1))


def _bundle() -> Bundle:
    override = Override(Placement("cpu", Precision.FP32), "warum")
    plan = Plan("g" * 64, Placement("vsi:v853", Precision.I8), {"größe": override})
    first = CompiledPartition("cpu", "cpu", "1+x", Blob("onnx", b"\x00\x01"), ("x",), ("q",), {"x": REAL, "q": BYTES})
    second = CompiledPartition("vsi:v853", "npusim", "2", Blob("nb", b""), ("q",), ("y",), {"q": BYTES, "y": REAL})
    return Bundle("größe", plan, {"x": REAL}, {"y": REAL}, (first, second), {"q": "source/q"})


def _saved(folder: Path) -> Path:
    save_bundle(_bundle(), folder / "b")
    return folder / "b"


def _edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "manifest.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document.pop("checksum", None)
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def _refused(folder: Path, says: str) -> None:
    with pytest.raises(BundleError, match=says) as caught:
        load_bundle(folder)
    assert str(folder) in str(caught.value)


def _tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_bundle_comes_back(tmp_path: Path) -> None:
    assert load_bundle(_saved(tmp_path)) == _bundle()
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [
        *("manifest.json", "partition-0.blob", "partition-1.blob", "plan.json")
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_saving_twice_gives_equal_bytes_and_replaces(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "partition-7.blob").write_bytes(b"stale")
    _saved(tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("manifest", ["{}", '{"kind": "other"}', "[1]", "no JSON", '{"kind": "dovetail-bundl"}'])
def test_a_folder_with_a_strangers_manifest_is_left_alone(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "manifest.json").write_text(manifest)
    with pytest.raises(BundleError, match="exists and is not a bundle"):
        save_bundle(_bundle(), tmp_path / "b")
    assert _tree(tmp_path) == {"b/manifest.json": manifest.encode()}


@pytest.mark.parametrize(
    "name", ["notes.txt", "partition-x.blob", "partition-1.blob.old", "my-plan.json", ".hidden", "partition-.blob"]
)
def test_a_file_that_somebody_put_into_a_bundle_is_not_deleted(tmp_path: Path, name: str) -> None:
    folder = _saved(tmp_path)
    (folder / name).write_text("mine")
    before = _tree(tmp_path)
    with pytest.raises(BundleError, match=f"holds '{name}', which is no part of a bundle"):
        save_bundle(_bundle(), folder)
    assert _tree(tmp_path) == before


def test_a_folder_that_somebody_put_into_a_bundle_is_not_deleted(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    (folder / "partition-9.blob").mkdir()
    (folder / "partition-9.blob" / "thesis.txt").write_text("mine")
    before = _tree(tmp_path)
    with pytest.raises(BundleError, match=r"holds 'partition-9\.blob'"):
        save_bundle(_bundle(), folder)
    assert _tree(tmp_path) == before


def test_a_link_in_a_bundle_is_not_deleted(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    (tmp_path / "outside").write_text("mine")
    (folder / "partition-9.blob").symlink_to(tmp_path / "outside")
    with pytest.raises(BundleError, match=r"holds 'partition-9\.blob'"):
        save_bundle(_bundle(), folder)
    assert (folder / "partition-9.blob").is_symlink()


def test_a_bundles_files_without_its_manifest_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "plan.json").write_text("mine")
    with pytest.raises(BundleError, match="exists and is not a bundle"):
        save_bundle(_bundle(), tmp_path / "b")
    assert _tree(tmp_path) == {"b/plan.json": b"mine"}


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    assert load_bundle(_saved(tmp_path)) == _bundle()


def test_a_folder_that_cannot_be_listed_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _saved(tmp_path)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuse)
        with pytest.raises(BundleError, match="cannot be written: Permission denied"):
            save_bundle(_bundle(), folder)
    assert load_bundle(folder) == _bundle()


def test_a_bundle_is_as_readable_as_any_folder(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert _saved(tmp_path).stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_or_a_link_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(BundleError, match="not a bundle"):
        save_bundle(_bundle(), tmp_path / "b")
    assert (tmp_path / "b").read_text() == "mine"
    elsewhere = _saved(tmp_path / "other")
    (tmp_path / "link").symlink_to(elsewhere)
    with pytest.raises(BundleError, match="not a bundle"):
        save_bundle(_bundle(), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load_bundle(elsewhere) == _bundle()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="cannot be written"):
        save_bundle(_bundle(), tmp_path / "file" / "b")


def test_a_save_that_breaks_off_leaves_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _saved(tmp_path)
    old = {path.name: path.read_bytes() for path in folder.iterdir()}

    def broken(bundle: Bundle, draft: Path) -> None:
        (draft / "plan.json").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(room, "_write", broken)
    with pytest.raises(BundleError, match="No space left"):
        save_bundle(_bundle(), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == old
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_rename_that_fails_leaves_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _saved(tmp_path)
    before = _tree(tmp_path)
    calls: list[object] = []

    def replace(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        os.rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(BundleError, match="cannot be written"):
        save_bundle(_bundle(), folder)
    assert _tree(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_an_old_bundle_that_cannot_be_put_back_is_kept_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _saved(tmp_path)
    calls: list[object] = []

    def replace(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) > 1:
            raise OSError(5, "Input/output error")
        os.rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(BundleError, match="cannot be written"):
        save_bundle(_bundle(), folder)
    (kept,) = tmp_path.glob(".b.*/old")
    assert load_bundle(kept) == _bundle()


@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "partition-0.blob", "partition-1.blob"])
def test_every_file_is_needed_and_must_be_a_plain_file(tmp_path: Path, name: str) -> None:
    folder = _saved(tmp_path)
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    _refused(folder, f"{name}: missing, or not a plain file")
    (folder / name).mkdir()
    _refused(folder, f"{name}: missing, or not a plain file")
    (folder / name).rmdir()
    (tmp_path / "outside").write_bytes(content)
    (folder / name).symlink_to(tmp_path / "outside")
    _refused(folder, f"{name}: missing, or not a plain file")


@pytest.mark.parametrize("name", ["plan.json", "partition-0.blob", "partition-1.blob"])
def test_a_changed_byte_is_noticed_in_every_file(tmp_path: Path, name: str) -> None:
    folder = _saved(tmp_path)
    content = (folder / name).read_bytes()
    for damaged in (content + b"\x00", content[:-1], bytes([content[0] ^ 1]) + content[1:] if content else b"\x01"):
        if damaged != content:
            (folder / name).write_bytes(damaged)
            _refused(folder, f"{name}: damaged")


def test_files_that_the_manifest_does_not_name_are_not_read(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    (folder / "partition-2.blob").write_bytes(b"x")
    (folder / "README").write_text("hello")
    assert load_bundle(folder) == _bundle()


def test_no_such_folder(tmp_path: Path) -> None:
    _refused(tmp_path / "none", "no such bundle")
    (tmp_path / "empty").mkdir()
    _refused(tmp_path / "empty", "missing")


@pytest.mark.parametrize("schema", [0, 2, "1", None, True, [1]])
def test_another_schema(tmp_path: Path, schema: object) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document.update(schema=schema))
    _refused(folder, "made for schema")


def test_another_kind(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document.update(kind="dovetail-report"))
    _refused(folder, "not a Dovetail bundle")


_FIELDS = ("schema", "kind", "name", "plan_sha256", "inputs", "outputs", "origins", "partitions")
_PART_FIELDS = ("target", "backend", "backend_version", "format", "sha256", "inputs", "outputs", "tensors")


@pytest.mark.parametrize("field", _FIELDS)
def test_every_field_is_needed(tmp_path: Path, field: str) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document.pop(field))
    _refused(folder, "manifest.json")


@pytest.mark.parametrize("field", _PART_FIELDS)
def test_every_field_of_a_partition_is_needed(tmp_path: Path, field: str) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document["partitions"][1].pop(field))
    _refused(folder, "malformed")


_WRONG: tuple[tuple[str, object], ...] = (
    ("name", 3),
    ("inputs", ["x"]),
    ("inputs", {"x": 7}),
    ("inputs", {"x": "f32[-3]"}),
    ("inputs", {"x": "f32[" + "1," * 5000 + "]"}),
    ("inputs", {"x": f"f32[{10**40}]"}),
    ("outputs", {"y": "i8[1] q(scale=[1e999], zero=[0])"}),
    ("outputs", {"y": f"i8[1] q(scale=[{10**400}], zero=[0])"}),
    ("outputs", {"y": "i8[1] q(scale=[NaN], zero=[0])"}),
    ("outputs", {"y": "i8[1] q(scale=[1.0], zero=[1e999])"}),
    ("outputs", {"y": "i8[1] q(scale=[1.0], zero=[300])"}),
    ("outputs", {"y": "i8[1] q(scale=[-1.0], zero=[0])"}),
    ("outputs", {"y": "i8[1] q(axis=4, scale=[1.0], zero=[0])"}),
    ("outputs", {"y": "f32[1] q(scale=[1.0], zero=[0])"}),
    ("outputs", {"z": "f32[1]"}),
    ("origins", {"q": 4}),
    ("origins", []),
    ("partitions", {}),
    ("partitions", [3]),
    ("partitions", "xx"),
    ("plan_sha256", 3),
)


@pytest.mark.parametrize(("field", "value"), _WRONG, ids=lambda item: str(item)[:40])
def test_fields_of_the_wrong_kind(tmp_path: Path, field: str, value: object) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document.update({field: value}))
    with pytest.raises(BundleError) as caught:
        load_bundle(folder)
    assert str(folder) in str(caught.value)
    assert len(str(caught.value)) < 500


_WRONG_PART: tuple[tuple[str, object], ...] = (
    ("inputs", "q"),
    ("inputs", [3]),
    ("inputs", ["ghost"]),
    ("outputs", ["ghost"]),
    ("tensors", []),
    ("target", 3),
    ("backend", None),
    ("sha256", "0" * 64),
    ("sha256", "../../etc/passwd"),
)


@pytest.mark.parametrize(("field", "value"), _WRONG_PART, ids=lambda item: str(item)[:40])
def test_fields_of_a_partition_of_the_wrong_kind(tmp_path: Path, field: str, value: object) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document["partitions"][1].update({field: value}))
    _refused(folder, "malformed|damaged")


def test_a_partition_that_reads_what_nothing_makes(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document["partitions"].reverse())
    moves = (("partition-0.blob", "swap"), ("partition-1.blob", "partition-0.blob"), ("swap", "partition-1.blob"))
    for name, other in moves:
        (folder / name).rename(folder / other)
    _refused(folder, "partition 0 reads 'q'")


def test_an_output_that_no_partition_makes(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document["partitions"].pop())
    _refused(folder, "makes output 'y'")


def test_names_never_become_paths(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    (tmp_path / "secret").write_bytes(b"secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    _edit(folder, lambda document: document["partitions"][0].update(file="../secret", path="../secret", sha256=digest))
    _refused(folder, "damaged")


def test_a_bundle_called_like_a_path_is_written_inside_its_folder(tmp_path: Path) -> None:
    bundle = Bundle("../../evil", _bundle().plan, {}, {}, (), {})
    save_bundle(bundle, tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert load_bundle(tmp_path / "b").name == "../../evil"


@pytest.mark.parametrize("name", ["manifest.json", "plan.json"])
def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    folder = _saved(tmp_path)
    with (folder / name).open("r+b") as stream:
        stream.truncate(1 << 40)
    with work.little():
        _refused(folder, f"{name}: larger than 268435456 bytes")


def test_a_file_of_the_greatest_size_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    with (folder / "manifest.json").open("r+b") as stream:
        stream.truncate(256 << 20)
    _refused(folder, "manifest.json: malformed")
    with (folder / "manifest.json").open("r+b") as stream:
        stream.truncate((256 << 20) + 1)
    _refused(folder, "manifest.json: larger than 268435456 bytes")


def test_a_huge_blob_is_refused_before_it_is_read(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    with (folder / "partition-0.blob").open("r+b") as stream:
        stream.truncate((4 << 30) + 1)
    _refused(folder, "partition-0.blob: larger than 4294967296 bytes")


def test_too_many_partitions(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document.update(partitions=[{}] * 100_001))
    _refused(folder, "the list of partitions is malformed")
    _edit(folder, lambda document: document.update(partitions=[{}] * 100_000))
    _refused(folder, "malformed: 'inputs'")


def test_deep_nesting(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    (folder / "manifest.json").write_text("[" * 200_000)
    _refused(folder, "malformed")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(edits=st.lists(st.tuples(st.integers(0, 2000), st.binary(max_size=4)), min_size=1, max_size=4))
def test_a_damaged_manifest_is_a_bundle_or_a_bundle_error(tmp_path: Path, edits: list[tuple[int, bytes]]) -> None:
    folder = tmp_path / "b"
    if not folder.exists():
        _saved(tmp_path)
        shutil.copy(folder / "manifest.json", tmp_path / "good")
    raw = (tmp_path / "good").read_bytes()
    for at, put in edits:
        raw = raw[:at] + put + raw[at + max(1, len(put)) :]
    (folder / "manifest.json").write_bytes(raw)
    with suppress(BundleError):
        load_bundle(folder)


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("f32[1]")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(field=st.sampled_from([*_FIELDS, *_PART_FIELDS]), value=_JSON)
def test_any_value_in_any_field_is_a_bundle_or_a_bundle_error(tmp_path: Path, field: str, value: object) -> None:
    folder = tmp_path / "b"
    if not folder.exists():
        _saved(tmp_path)
        shutil.copy(folder / "manifest.json", tmp_path / "good")
    shutil.copy(tmp_path / "good", folder / "manifest.json")

    def change(document: dict[str, Any]) -> None:
        if field in _PART_FIELDS:
            document["partitions"][0][field] = value
        if field in _FIELDS:
            document[field] = value

    _edit(folder, change)
    with suppress(BundleError):
        load_bundle(folder)


def test_a_bundle_for_numpy_alone_loads_and_runs_without_onnx(tmp_path: Path) -> None:
    net = Network()
    graph = net.graph(net.op("Relu", net.input("x", 1, 4)))
    plan = Plan(graph.digest, Placement("reference", Precision.FP32))
    compiled = compile_model(partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {}))))
    save_bundle(compiled, tmp_path / "b")
    program = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('onnx', 'onnxruntime', 'scipy', 'PIL'):\n"
        "            raise ImportError(name + ' is blocked')\n"
        "sys.meta_path.insert(0, Block())\n"
        "import numpy as np\n"
        "from pathlib import Path\n"
        "from dovetail.bundle import load_bundle\n"
        "from dovetail.runtime import open_session\n"
        "with open_session(load_bundle(Path(sys.argv[1]))) as session:\n"
        "    run = session.run({'x': np.array([[-1, 2, -3, 4]], np.float32)})\n"
        "print(run.outputs['t0'].tolist())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "b")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(np.array([[0.0, 2.0, 0.0, 4.0]]).tolist()), done.stderr


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("units", -1, "'units' is a count"),
        ("units", True, "'units' is a count"),
        ("predicted_ns", -1.0, "'predicted_ns' is a duration"),
        ("predicted_ns", float("nan"), "'predicted_ns' is a duration"),
        ("predicted_ns", float("inf"), "'predicted_ns' is a duration"),
        ("predicted_ns", True, "'predicted_ns' is a duration"),
        ("macs", "3", "'macs' is a count"),
        ("macs", 1.0, "'macs' is a count"),
        ("nodes", "n0", "'nodes' is a list"),
        ("nodes", [3], "a text is expected, not '3'"),
        ("predicted_ns", "fast", "'predicted_ns' is a duration"),
        ("predicted_by", 3, "a text is expected"),
    ],
)
def test_malformed_predictions(tmp_path: Path, key: str, value: object, says: str) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document["partitions"][0].update({key: value}))
    _refused(folder, says)


def test_what_stands_for_a_text_is_shown_by_its_beginning(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    _edit(folder, lambda document: document.update(name=[1] * 500))
    _refused(folder, r"a text is expected, not '\[1(, 1){12}, '")


def test_counts_and_durations_of_nothing_come_back(tmp_path: Path) -> None:
    first, second = _bundle().partitions
    counted = replace(first, nodes=("a", "b"), macs=0, units=0, predicted_ns=0.0, predicted_by="stop-watch")
    bundle = replace(_bundle(), partitions=(counted, second))
    save_bundle(bundle, tmp_path / "b")
    assert load_bundle(tmp_path / "b") == bundle


def test_a_manifest_is_readable_as_it_stands(tmp_path: Path) -> None:
    text = (_saved(tmp_path) / "manifest.json").read_text(encoding="utf-8")
    assert '\n "name": "größe",\n' in text
    assert text.endswith("}\n")


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _saved(tmp_path)

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    _refused(folder, "manifest.json: cannot be read: Permission denied")


def test_parents_are_made(tmp_path: Path) -> None:
    save_bundle(_bundle(), tmp_path / "some" / "where" / "b")
    assert load_bundle(tmp_path / "some" / "where" / "b") == _bundle()


def test_predictions_are_optional_and_a_path_may_be_a_text(tmp_path: Path) -> None:
    folder = _saved(tmp_path)
    for key in ("units", "predicted_ns", "predicted_by"):
        _edit(folder, lambda document, key=key: document["partitions"][0].pop(key))  # type: ignore[misc]
    assert load_bundle(str(folder)) == _bundle()
    save_bundle(_bundle(), str(tmp_path / "other"))
    assert load_bundle(tmp_path / "other") == _bundle()
