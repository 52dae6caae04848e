"""What `dovetail-run` refuses: bundles, samples and models that are damaged, hostile or not for it."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from runners import Runner

import dovetail
from dovetail._version import __version__
from dovetail.bundle import export_bundle, load_bundle
from dovetail.seal import sealed, unsealed

# Building the program takes most of a minute.
pytestmark = pytest.mark.slow

Change = Callable[[dict[str, object]], None]


def rewrite(bundle: Path, change: Change) -> None:
    """Change the manifest of a bundle, and give it the checksum that fits."""
    path = bundle / "manifest.json"
    document = unsealed(json.loads(path.read_text()))
    change(document)
    path.write_text(json.dumps(sealed(document)))


def replace_blob(bundle: Path, index: int, payload: bytes) -> None:
    """Put another blob into a bundle, with the checksum that fits."""
    (bundle / f"partition-{index}.blob").write_bytes(payload)

    def change(document: dict[str, object]) -> None:
        entries = document["partitions"]
        assert isinstance(entries, list)
        entries[index]["sha256"] = hashlib.sha256(payload).hexdigest()

    rewrite(bundle, change)


def entry(**values: object) -> Change:
    """Return a change of the first partition's entry."""

    def change(document: dict[str, object]) -> None:
        entries = document["partitions"]
        assert isinstance(entries, list)
        entries[0].update(values)

    return change


def field(**values: object) -> Change:
    """Return a change of the manifest itself."""
    return lambda document: document.update(values)


CHANGES = {
    "schema": (field(schema=2), "made for schema 2"),
    "truth": (field(schema=True), "made for schema true"),
    "kind": (field(kind="cake"), "not a Dovetail bundle"),
    "inputs": (field(inputs={"x": "f32[1, 3, 16, 17]"}), "reads 'x' as another type"),
    "types": (field(inputs={"x": "f33[1]"}), "no known element type"),
    "sizes": (field(inputs={"x": "f32[99999999999]"}), "a size lies outside"),
    "rank": (field(inputs={"x": "f32[" + "1, " * 40 + "1]"}), "more than 16 dimensions"),
    "text": (field(inputs={"x": 'f32["N'}), "cut short"),
    "scales": (field(inputs={"x": "i8[1] q(scale=[-1.0], zero=[0])"}), "not positive"),
    "outputs": (field(outputs={"nothing": "f32[1]"}), "no partition makes output 'nothing'"),
    "plan": (field(plan_sha256="0" * 64), "plan.json: damaged"),
    "partitions": (field(partitions={}), "malformed"),
    "backend": (entry(backend="openvino"), "compiled by 'openvino', which this program does not run"),
    "version": (entry(backend_version="9.9+ort1.0"), f"; {__version__}+ort"),
    "needs": (entry(needs={"moon": "full"}), "it needs moon full"),
    "format": (entry(format="tflite"), "of format 'tflite'"),
    "names": (entry(inputs="x"), "lists"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_manifests(runner: Runner, bundle: Path, name: str) -> None:
    change, said = CHANGES[name]
    rewrite(bundle, change)
    assert said in runner.refusal(bundle)


def test_another_version_runs_where_that_is_asked_for(runner: Runner, bundle: Path) -> None:
    rewrite(bundle, entry(backend_version=f"{__version__}+ort1.0"))
    assert runner.run(bundle, "--any-version").returncode == 0


def test_needs_that_are_there(runner: Runner, bundle: Path) -> None:
    rewrite(bundle, entry(needs={"moon": "full"}))
    assert runner.run(bundle, "--have", "moon=full").returncode == 0


@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "partition-0.blob", "partition-1.blob"])
def test_flipped_cut_missing_and_linked_files(runner: Runner, bundle: Path, name: str) -> None:
    path, whole = bundle / name, (bundle / name).read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:-3], whole + b"0", b""):
        path.write_bytes(damaged)
        assert name in runner.refusal(bundle)
    path.unlink()
    assert "missing, or not a plain file" in runner.refusal(bundle)
    elsewhere = bundle.parent / "elsewhere"
    elsewhere.write_bytes(whole)
    path.symlink_to(elsewhere)
    assert "missing, or not a plain file" in runner.refusal(bundle)
    path.unlink()
    os.mkfifo(path)
    assert "missing, or not a plain file" in runner.refusal(bundle)
    path.unlink()
    path.write_bytes(whole)
    assert runner.run(bundle).returncode == 0


def test_files_of_claimed_sizes(runner: Runner, bundle: Path) -> None:
    with (bundle / "manifest.json").open("r+b") as file:
        file.truncate(300 << 20)
    assert "larger than" in runner.refusal(bundle)


def test_deep_json(runner: Runner, bundle: Path) -> None:
    (bundle / "manifest.json").write_text("[" * 100000)
    assert "malformed" in runner.refusal(bundle)


def test_archives_with_other_names(runner: Runner, bundle: Path) -> None:
    path = bundle.parent / "one.zip"
    for name in ("../manifest.json", "/etc/passwd", "a/manifest.json", "partition-0.blob/..", "partition-x.blob", "x"):
        export_bundle(load_bundle(bundle), path)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(name, b"")
        assert "which is no part of a bundle" in runner.refusal(path)
        path.unlink()
    export_bundle(load_bundle(bundle), path)
    whole = path.read_bytes()
    for cut in (whole[: len(whole) // 2], whole[:-5], b"", whole[:30]):
        path.write_bytes(cut)
        assert "one.zip" in runner.refusal(path)


def test_a_model_that_reads_files(runner: Runner, bundle: Path) -> None:
    secret = bundle.parent / "secret"
    secret.write_bytes(bytes(4096))
    for index in range(2):
        model = onnx.load_model_from_string((bundle / "partition-0.blob").read_bytes())
        held = model.graph.initializer[0]
        if index:
            # Inside a node, and not named as the format says: the location alone.
            node = onnx.helper.make_node("Constant", [], ["unused"], value=onnx.TensorProto(name="t", raw_data=b"0"))
            held = node.attribute[0].t
            model.graph.node.insert(0, node)
        onnx.external_data_helper.set_external_data(held, str(secret))
        held.ClearField("raw_data")
        replace_blob(bundle, 0, model.SerializeToString())
        assert "reads other files" in runner.refusal(bundle)


def test_a_model_that_is_none(runner: Runner, bundle: Path) -> None:
    whole = (bundle / "partition-0.blob").read_bytes()
    for payload in (b"", b"\xff" * 50, whole[: len(whole) // 2], b"\x08" * 40):
        replace_blob(bundle, 0, payload)
        assert "partition 0" in runner.refusal(bundle)
    model = onnx.load_model_from_string(whole)
    model.graph.output[0].name, model.graph.node[-1].output[0] = "other", "other"
    replace_blob(bundle, 0, model.SerializeToString())
    assert "the blob has other outputs than the bundle says" in runner.refusal(bundle)


def header(descr: str = "<f4", shape: str = "(4, 3, 16, 16)", fortran: bool = False, size: int = 0) -> bytes:
    """Return the head of an .npy array; `size` is what it claims to be long."""
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", size or len(text)) + text


VALUES = bytes(4 * 3 * 16 * 16 * 4)
ARRAYS = {
    "objects": (header("|O") + VALUES, "are not read here"),
    "big-endian": (header(">f4") + VALUES, "are not read here"),
    "fortran": (header(fortran=True) + VALUES, "Fortran order"),
    "too many": (header(shape="(4000000000000, 3, 16, 16)") + VALUES, "another number of bytes"),
    "overflow": (header(shape="(4294967296, 4294967296, 4)") + VALUES, "more than"),
    "negative": (header(shape="(-4, 3, 16, 16)") + VALUES, "damaged .npy header"),
    "long": (header(shape="(" + "1, " * 100 + ")") + VALUES, "damaged .npy header"),
    "code": (header(shape="(__import__('os').abort(),)") + VALUES, "damaged .npy header"),
    "claim": (header(size=60000) + VALUES[:100], "ends early"),
    "short": (header() + VALUES[:-1], "another number of bytes"),
    "nothing": (b"", "ends early"),
    "text": (b"hello, this is no array at all", "not an .npy array"),
    "rank": (header(shape="(12, 16, 16)") + VALUES, "expected shape [1, 3, 16, 16], found [16, 16]"),
    "scalar": (header(shape="()") + VALUES[:4], "is a single number"),
    "nan": (header() + b"\xff" * len(VALUES), "NaN or infinite"),
    "half": (header("<f2") + VALUES[: len(VALUES) // 2], "is not turned into"),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_samples(runner: Runner, bundle: Path, name: str, kind: str) -> None:
    content, said = ARRAYS[name]
    path = bundle.parent / f"samples.{kind}"
    if kind == "npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", content)
    output = bundle.parent / "y.npz"
    assert said in runner.refusal(bundle, "-i", path, "-o", output)
    assert not output.exists()


def test_archives_of_samples(runner: Runner, bundle: Path) -> None:
    path = bundle.parent / "x.npz"
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for damaged in (whole[:middle], whole[:-3], b"", b"PK\x05\x06" + bytes(18)):
        path.write_bytes(damaged)
        assert "x.npz" in runner.refusal(bundle, "-i", path)
    path.write_bytes(flipped)
    assert "checksum" in runner.refusal(bundle, "-i", path)
    np.savez(path, y=np.zeros(3), z=np.zeros(3))
    assert "no array for input 'x'; found y, z" in runner.refusal(bundle, "-i", path)
    # One member that claims far more than the file can hold.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header())
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFF0)
    path.write_bytes(content)
    assert "claims more bytes" in runner.refusal(bundle, "-i", path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no bundle"),
        (("bundle", "--cake"), "'--cake' is unknown"),
        (("bundle", "-o", "y.npz"), "nothing to run"),
        (("bundle", "--repeat", "-1"), "takes a number"),
        (("bundle", "--repeat", "1e9"), "takes a number"),
        (("bundle", "--repeat"), "needs a value"),
        (("bundle", "--have", "moon"), "NAME=VALUE"),
        (("a", "b"), "is a second"),
        (("nowhere",), "no such file"),
    ],
)
def test_words(runner: Runner, words: tuple[str, ...], said: str) -> None:
    ended = Runner(runner.program)
    assert said in ended.refusal(*words)


def test_what_it_says_of_itself(runner: Runner) -> None:
    plain = Runner(runner.program)
    assert plain.run("--version").stdout == f"dovetail-run {dovetail.__version__}\n"
    text = plain.run("--help").stdout
    assert max(map(len, text.splitlines())) <= 128
    assert "--any-version" in text


def test_a_library_that_is_none(runner: Runner, bundle: Path) -> None:
    plain = Runner(runner.program)
    assert "cannot be loaded" in plain.refusal(bundle, "--ort", bundle / "plan.json")
    assert "--ort" in plain.refusal(bundle, "--ort", "/nowhere/libonnxruntime.so")


@seed(24)
@settings(max_examples=150, database=None)
@given(data=st.data())
def test_flipped_bytes_anywhere(runner: Runner, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Samples and archives in which some bytes are others: an answer or a refusal, never a crash."""
    folder = tmp_path_factory.getbasetemp() / "flips"
    if not folder.exists():
        _prepare(folder)
    name = data.draw(st.sampled_from(["one.zip", "x.npz", "c.npz"]))
    content = bytearray((folder / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path = folder / f"damaged.{name[-3:]}"
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(len(content) // 2, len(content))) :]
    path.write_bytes(content)
    words = (path,) if name == "one.zip" else (folder / "one.zip", "-i", path)
    ended = runner.run(*words)
    assert ended.returncode in (0, 2), ended.stderr
    assert (ended.returncode == 2) == ended.stderr.startswith("error: ")


def _prepare(folder: Path) -> None:
    from boards import small_network, write_samples
    from runners import compiled

    graph = small_network()
    folder.mkdir()
    export_bundle(compiled(graph, {node.name: "cpu@i8pc" for node in graph.nodes}), folder / "one.zip")
    write_samples(folder / "x.npz")
    with np.load(folder / "x.npz") as archive:
        np.savez_compressed(folder / "c.npz", x=archive["x"])
