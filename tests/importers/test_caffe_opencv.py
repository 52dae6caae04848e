"""Caffe's layers one by one, and whole networks, judged by OpenCV's reader of Caffe."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from dovetail.importers import LoadOptions, load_model
from dovetail.ir import AnyArray
from dovetail.testing.running import run_graph
from judges.caffe_files import write_caffe

_GENERATOR = np.random.default_rng(7)


def _real(*shape: int) -> AnyArray:
    return _GENERATOR.normal(size=shape).astype(np.float32)


def _near(*shape: int) -> AnyArray:
    return _GENERATOR.uniform(1, 2, shape).astype(np.float32)


_LAYERS: dict[str, tuple[str, tuple[AnyArray, ...]]] = {
    "AbsVal": ("", ()),
    "BNLL": ("", ()),
    "BatchNorm": ("", (_real(4), _near(4), np.array([1.0], np.float32))),
    "Convolution": (
        "convolution_param { num_output: 6 kernel_size: 3 pad: 1 stride: 2 }",
        (_real(6, 4, 3, 3), _real(6)),
    ),
    "Convolution grouped": (
        "convolution_param { num_output: 6 kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0 group: 2 bias_term: false }",
        (_real(6, 2, 3, 1),),
    ),
    "Convolution dilated": (
        "convolution_param { num_output: 2 kernel_size: 3 dilation: 2 pad: 2 }",
        (_real(2, 4, 3, 3), _real(2)),
    ),
    "Deconvolution": (
        "convolution_param { num_output: 3 kernel_size: 4 stride: 2 pad: 1 }",
        (_real(4, 3, 4, 4), _real(3)),
    ),
    "ELU": ("elu_param { alpha: 0.7 }", ()),
    "Flatten": ("", ()),
    "InnerProduct": ("inner_product_param { num_output: 5 }", (_real(5, 4 * 9 * 11), _real(5))),
    "LRN": ("lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 }", ()),
    "PReLU": ("", (_real(4),)),
    "Permute": ("permute_param { order: 0 order: 2 order: 3 order: 1 }", ()),
    "Pooling": ("pooling_param { pool: MAX kernel_size: 3 stride: 2 }", ()),
    "Pooling average": ("pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", ()),
    "Pooling global": ("pooling_param { pool: AVE global_pooling: true }", ()),
    "Power": ("power_param { power: 2 scale: 0.5 shift: 3 }", ()),
    "ReLU": ("", ()),
    "ReLU leaky": ("relu_param { negative_slope: 0.2 }", ()),
    "Reshape": ("reshape_param { shape { dim: 0 dim: -1 dim: 11 } }", ()),
    "Scale": ("scale_param { bias_term: true }", (_real(4), _real(4))),
    "Sigmoid": ("", ()),
    "Softmax": ("", ()),
    "TanH": ("", ()),
}
_SHAPE = (1, 4, 9, 11)


def _judged(path: Path, x: AnyArray) -> AnyArray:
    network = cv2.dnn.readNetFromCaffe(str(path), str(path.with_suffix(".caffemodel")))
    network.setInput(x)
    return np.asarray(network.forward())


@pytest.mark.parametrize("name", sorted(_LAYERS))
def test_a_layer_is_what_opencv_computes(tmp_path: Path, name: str) -> None:
    settings, blobs = _LAYERS[name]
    text = f'layer {{ name: "it" type: "{name.split()[0]}" bottom: "data" top: "it" {settings} }}'
    path = write_caffe(tmp_path, text, {"it": blobs}, _SHAPE)
    x = _real(*_SHAPE)
    graph = load_model(path)
    (found,) = run_graph(graph, {"data": x})
    wanted = _judged(path, x)
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "settings"),
    [
        ("Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -0.5 }"),
        ("Eltwise", "eltwise_param { operation: PROD }"),
        ("Eltwise", "eltwise_param { operation: MAX }"),
        ("Concat", "concat_param { axis: 1 }"),
        ("Concat", "concat_param { axis: 2 }"),
    ],
)
def test_two_branches_meet_as_in_opencv(tmp_path: Path, layer: str, settings: str) -> None:
    text = (
        'layer { name: "a" type: "TanH" bottom: "data" top: "a" } '
        'layer { name: "b" type: "Power" bottom: "data" top: "b" power_param { scale: 2 } } '
        f'layer {{ name: "it" type: "{layer}" bottom: "a" bottom: "b" top: "it" {settings} }}'
    )
    path = write_caffe(tmp_path, text, {}, _SHAPE)
    x = _real(*_SHAPE)
    (found,) = run_graph(load_model(path), {"data": x})
    np.testing.assert_allclose(found, _judged(path, x), rtol=1e-4, atol=1e-5)


@pytest.mark.models
def test_lenet_is_what_opencv_computes(models: Path) -> None:
    path = models / "lenet_caffe" / "lenet.prototxt"
    graph = load_model(path, LoadOptions(shapes={"data": (1, 1, 28, 28)}))
    with np.load(models / "data_mnist" / "t10k_1000.npz", allow_pickle=False) as file:
        images = file["x"][:20].astype(np.float32) / 256
    for image in images:
        x = image[None, None]
        (found,) = run_graph(graph, {"data": x})
        np.testing.assert_allclose(found, _judged(path, x), rtol=1e-4, atol=1e-6)
