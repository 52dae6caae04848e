"""Darknet networks: against the format's definition, and damaged files."""

from __future__ import annotations

import struct
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import LoadError
from dovetail.importers import load_model
from dovetail.importers.darknet import layers
from dovetail.ir import AnyArray
from dovetail.testing.running import run_graph
from fuzz_importers import fuzz_half
from judges.frameworks import Ask, output_pairs, relative, run_framework

_CFG = """[net]
width=6
height=6
channels=2
# a comment
[convolutional]
filters=4
size=3
stride=1
pad=1
batch_normalize=1
activation=leaky

[convolutional]
filters=4
size=1
activation=linear

[shortcut]
from=-2
activation=linear

[maxpool]
size=2
stride=2

[upsample]
stride=2

[route]
layers=-1,0
"""


def _write(folder: Path) -> tuple[Path, dict[str, AnyArray]]:
    generator = np.random.default_rng(4)
    parts = {
        "shift": generator.normal(size=4),
        "scale": generator.normal(size=4),
        "mean": generator.normal(size=4),
        "variance": generator.uniform(1, 2, 4),
        "first": generator.normal(size=(4, 2, 3, 3)),
        "bias": generator.normal(size=4),
        "second": generator.normal(size=(4, 4)),
    }
    numbers = np.concatenate([part.reshape(-1) for part in parts.values()]).astype("<f4")
    (folder / "tiny.cfg").write_text(_CFG)
    (folder / "tiny.weights").write_bytes(struct.pack("<3iq", 0, 2, 5, 77) + numbers.tobytes())
    return folder / "tiny.cfg", parts


def test_a_small_network_computes_what_darknet_defines(tmp_path: Path) -> None:
    path, parts = _write(tmp_path)
    graph = load_model(path)
    x = np.random.default_rng(5).normal(size=(1, 2, 6, 6)).astype(np.float32)
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    conv = np.zeros((4, 6, 6))
    for row, column in product(range(6), range(6)):
        window = padded[:, row : row + 3, column : column + 3]
        conv[:, row, column] = (parts["first"] * window).sum(axis=(1, 2, 3))
    spread = {name: parts[name][:, None, None] for name in ("shift", "scale", "mean", "variance", "bias")}
    normal = (conv - spread["mean"]) / np.sqrt(spread["variance"] + 1e-5) * spread["scale"] + spread["shift"]
    leaky = np.where(normal > 0, normal, 0.1 * normal)
    added = np.einsum("oi,ihw->ohw", parts["second"], leaky) + spread["bias"] + leaky
    # size - 1 pads in all, the smaller half in front: windows start at even places.
    pooled = added.reshape(4, 3, 2, 3, 2).max(axis=(2, 4))
    want = np.concatenate([pooled.repeat(2, axis=1).repeat(2, axis=2), leaky])
    (found,) = run_graph(graph, {"data": x})
    np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-4)
    assert graph.node("conv_0").op == "Conv"


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path, _ = _write(tmp_path)
    data = path.with_suffix(".weights").read_bytes()
    path.with_suffix(".weights").write_bytes(data[:-8])
    with pytest.raises(LoadError, match=r"the weights end at .* conv_1"):
        load_model(path)
    path.with_suffix(".weights").write_bytes(data + b"\0" * 8)
    with pytest.raises(LoadError, match=r"2 of .* weights belong to no layer"):
        load_model(path)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[upsample]", "[wonder]", "no counterpart"),
        ("filters=4", "filters=99999999999", "out of proportion"),
        ("filters=4", "filters=four", "not a whole number"),
        ("layers=-1,0", "layers=-1,9", "not before it"),
        ("[maxpool]", "[maxpool", "not closed"),
        ("[net]", "[other]", "no Darknet network"),
    ],
)
def test_wrong_settings_are_refused_with_their_place(tmp_path: Path, old: str, new: str, why: str) -> None:
    path, _ = _write(tmp_path)
    path.write_text(_CFG.replace(old, new, 1))
    with pytest.raises(LoadError, match=why):
        load_model(path)


@pytest.mark.parametrize("suffix", [".cfg", ".weights"])
def test_300_mutants_load_or_are_refused(tmp_path: Path, suffix: str) -> None:
    path, _ = _write(tmp_path)
    ends, broken = fuzz_half(path, path.with_suffix(suffix), 300, seed=6)
    assert not broken
    assert ends["refused"] > 30


@pytest.mark.models
def test_yolo_fastest_is_what_opencv_computes(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = models / "yolo_fastest_darknet" / "yolo-fastest-1.1.cfg"
    # Darknet adds 1e-5 to a variance, OpenCV 1e-6.
    monkeypatch.setattr(layers, "_EPSILON", 1e-6)
    graph = load_model(path)
    assert [graph.types[name].shape for name in graph.outputs] == [(1, 255, 10, 10), (1, 255, 20, 20)]
    x = np.random.default_rng(0).uniform(size=(1, 3, 320, 320)).astype(np.float32)
    _, judged = run_framework(Ask(path, [{"data": x}]))
    assert judged is not None
    for found, wanted in output_pairs([run_graph(graph, {"data": x})], judged):
        assert relative(found, wanted) < 1e-4
