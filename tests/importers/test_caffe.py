"""Caffe networks: against the same network in ONNX, the published accuracy, and damaged files."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import LoadError
from dovetail.importers import LoadOptions, load_model
from dovetail.importers.caffe.text import read_text
from dovetail.ir import AnyArray
from dovetail.testing.running import run_graph
from fuzz_importers import fuzz_half
from judges.caffe_files import caffe_layer

_NET = """
name: "tiny"  # a comment
input: "data" input_dim: [1, 2, 5, 5]
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 3 kernel_size: 3 pad: 1 } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "pool" include { phase: TRAIN } }
"""


def _write(folder: Path) -> tuple[Path, dict[str, AnyArray]]:
    generator = np.random.default_rng(1)
    values = {
        "weight": generator.normal(size=(3, 2, 3, 3)),
        "bias": generator.normal(size=3),
        "mean": generator.normal(size=3),
        "variance": generator.uniform(1, 2, 3),
    }
    layers = caffe_layer("conv", values["weight"], values["bias"])
    layers += caffe_layer("norm", values["mean"] * 4, values["variance"] * 4, np.array([4.0]))
    (folder / "tiny.prototxt").write_text(_NET)
    (folder / "tiny.caffemodel").write_bytes(layers)
    return folder / "tiny.prototxt", values


def test_a_small_network_computes_what_caffe_defines(tmp_path: Path) -> None:
    path, values = _write(tmp_path)
    graph = load_model(path)
    assert graph.inputs == ("data",)
    assert graph.outputs == ("pool",)
    x = np.random.default_rng(2).normal(size=(1, 2, 5, 5)).astype(np.float32)
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    conv = np.zeros((3, 5, 5))
    for row, column in product(range(5), range(5)):
        window = padded[:, row : row + 3, column : column + 3]
        conv[:, row, column] = (values["weight"] * window).sum(axis=(1, 2, 3)) + values["bias"]
    normal = (conv - values["mean"][:, None, None]) / np.sqrt(values["variance"] + 1e-5)[:, None, None]
    active = np.maximum(normal, 0)
    # Sizes are rounded up; a window that sticks out is averaged over what lies inside.
    want = np.array(
        [[[c[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean() for j in range(3)] for i in range(3)] for c in active]
    )
    (found,) = run_graph(graph, {"data": x})
    np.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-5)


def test_either_file_names_the_network(tmp_path: Path) -> None:
    path, _ = _write(tmp_path)
    assert load_model(path).digest == load_model(path.with_suffix(".caffemodel")).digest
    path.with_suffix(".caffemodel").unlink()
    with pytest.raises(LoadError, match="other half of tiny"):
        load_model(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("layer {", "ends inside"),
        ('layer { name: "a }', "not closed"),
        ("layer { : }", "field is expected"),
        ("a {" * 40, "deep"),
        ("layer { x: } }", "value is expected"),
    ],
)
def test_wrong_texts_are_refused_with_the_line(text: str, why: str) -> None:
    with pytest.raises(LoadError, match=why):
        read_text("\n" + text, "net.prototxt")


def test_an_unknown_layer_is_named(tmp_path: Path) -> None:
    path, _ = _write(tmp_path)
    path.write_text(_NET.replace('"ReLU"', '"Wonder"'))
    with pytest.raises(LoadError, match=r"layer 'relu' \(Wonder\)"):
        load_model(path)


@pytest.mark.parametrize("suffix", [".prototxt", ".caffemodel"])
def test_300_mutants_load_or_are_refused(tmp_path: Path, suffix: str) -> None:
    path, _ = _write(tmp_path)
    ends, broken = fuzz_half(path, path.with_suffix(suffix), 300, seed=3)
    assert not broken
    assert ends["refused"] > 30


def _priors() -> AnyArray:
    """Return centres and sizes of UltraFace's anchors, as its authors define them."""
    found: list[tuple[float, float, float, float]] = []
    sizes = ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256))
    for step, widths in zip((8, 16, 32, 64), sizes, strict=True):
        rows, columns = -(-240 // step), -(-320 // step)
        for row, column, width in product(range(rows), range(columns), widths):
            found.append(((column + 0.5) / columns, (row + 0.5) / rows, width / 320, width / 240))
    return np.clip(np.array(found), 0, 1)


@pytest.mark.models
def test_ultraface_is_the_same_in_caffe_and_onnx(models: Path) -> None:
    folder = models / "ultraface_rfb320"
    caffe, onnx = load_model(folder / "RFB-320.prototxt"), load_model(folder / "version-RFB-320.onnx")
    x = np.random.default_rng(0).normal(size=(1, 3, 240, 320)).astype(np.float32)
    mine = dict(zip(caffe.outputs, run_graph(caffe, {caffe.inputs[0]: x}), strict=True))
    theirs = dict(zip(onnx.outputs, run_graph(onnx, {onnx.inputs[0]: x}), strict=True))
    np.testing.assert_allclose(mine["scores"], theirs["scores"], atol=1e-4)
    # The Caffe file gives encoded boxes, the ONNX file decodes them.
    priors, codes = _priors(), mine["boxes"][0]
    centres = codes[:, :2] * 0.1 * priors[:, 2:] + priors[:, :2]
    extents = np.exp(codes[:, 2:] * 0.2) * priors[:, 2:]
    corners = np.concatenate([centres - extents / 2, centres + extents / 2], axis=1)
    np.testing.assert_allclose(corners, theirs["boxes"][0], atol=1e-4)


@pytest.mark.models
def test_lenet_is_as_good_as_published(models: Path, tmp_path: Path) -> None:
    for name in ("lenet.prototxt", "lenet.caffemodel"):
        shutil.copy(models / "lenet_caffe" / name, tmp_path / name)
    graph = load_model(tmp_path / "lenet.prototxt", LoadOptions(shapes={"data": (1000, 1, 28, 28)}))
    with np.load(models / "data_mnist" / "t10k_1000.npz", allow_pickle=False) as file:
        x, labels = file["x"][:, None].astype(np.float32) / 256, file["label"]
    (found,) = run_graph(graph, {"data": x})
    assert (found.argmax(axis=1) == labels).mean() == pytest.approx(0.978, abs=1e-9)
