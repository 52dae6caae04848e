"""What files and types state of a model's pictures."""

from __future__ import annotations

import json
from pathlib import Path

import flatbuffers
import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper

from dovetail.data import Channels, Interpolation, Preprocess, PreprocessStep, StepKind
from dovetail.errors import DataError
from dovetail.inputs import InputTypes, Stated, stated_preprocess
from dovetail.ir import DType, Quantization, TensorType
from dovetail.outputs.ends import ImageInput

IMAGE = ImageInput("x", 224, 224, 3, False)
FLOAT = TensorType(DType.F32, (1, 3, 224, 224))
FLOATS = InputTypes(FLOAT, FLOAT)


def what_is_stated(path: Path | None, types: InputTypes = FLOATS) -> Stated:
    """Return what is stated, where something is."""
    stated = stated_preprocess(path, types, IMAGE)
    assert stated is not None
    return stated


def whole_preprocess(path: Path) -> Preprocess:
    """Return what is stated, where it is a whole preprocess."""
    preprocess = what_is_stated(path).preprocess
    assert preprocess is not None
    return preprocess


def tables(builder, items):
    """Return a vector of tables that were made before."""
    builder.StartVector(4, len(items), 4)
    for item in reversed(items):
        builder.PrependUOffsetTRelative(item)
    return builder.EndVector()


def table(builder, offsets=(), numbers=()):
    """Return a table with offsets and numbers (slot, bytes, value) in its fields."""
    slots = [slot for slot, _ in offsets] + [slot for slot, _, _ in numbers]
    builder.StartObject(max(slots, default=0) + 1)
    for slot, value in offsets:
        builder.PrependUOffsetTRelativeSlot(slot, value, 0)
    for slot, size, value in numbers:
        {1: builder.PrependUint8Slot, 4: builder.PrependUint32Slot}[size](slot, value, 0)
    return builder.EndObject()


def reals(builder, values):
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependFloat32(value)
    return builder.EndVector()


def metadata(mean, deviation, colour):
    """Return metadata as `metadata_schema.fbs` lays it out: normalisation, and the colour space of an image."""
    b = flatbuffers.Builder()
    options = table(b, [(0, reals(b, mean)), (1, reals(b, deviation))])
    units = tables(b, [table(b, [(1, options)], [(0, 1, 1)])])
    content = table(b, [(1, table(b, (), [(0, 1, colour)]))], [(0, 1, 2)])
    graph = table(b, [(2, tables(b, [table(b, [(3, content), (4, units)])]))])
    b.Finish(table(b, [(0, b.CreateString("net")), (3, tables(b, [graph]))]))
    return bytes(b.Output())


def tflite_file(path, content):
    """Write the head of a TFLite model: buffers, and the metadata's place among them."""
    b = flatbuffers.Builder()
    buffers = tables(b, [table(b), table(b, [(0, b.CreateByteVector(content))])])
    entry = table(b, [(0, b.CreateString("TFLITE_METADATA"))], [(1, 4, 1)])
    b.Finish(table(b, [(4, buffers), (6, tables(b, [entry]))], [(0, 4, 3)]), file_identifier=b"TFL3")
    path.write_bytes(bytes(b.Output()))


def test_tflite_metadata(tmp_path):
    path = tmp_path / "m.tflite"
    tflite_file(path, metadata((127.5,), (128.0,), 1))
    stated = what_is_stated(path)
    assert (stated.source, stated.mean, stated.scale) == ("TFLite metadata", (127.5,), (1 / 128,))
    assert stated.channels is Channels.RGB
    assert stated.preprocess is None  # the geometry is not stated
    tflite_file(path, metadata((1.0, 2.0, 3.0), (2.0, 4.0, 8.0), 0))
    stated = what_is_stated(path)
    assert (stated.mean, stated.scale, stated.channels) == ((1, 2, 3), (0.5, 0.25, 0.125), None)


def test_damaged_tflite_metadata_states_nothing(tmp_path):
    path = tmp_path / "m.tflite"
    good = metadata((127.5,), (127.5,), 1)
    rng = np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(good)
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
        tflite_file(path, bytes(data[: int(rng.integers(1, len(data) + 1))]))
        stated = stated_preprocess(path, FLOATS, IMAGE)
        assert stated is None or stated.source == "TFLite metadata"


def onnx_file(path, **entries):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 224, 224])
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]))
    helper.set_model_props(model, entries)
    onnx.save(model, path)


def test_onnx_image_keys(tmp_path):
    path = tmp_path / "m.onnx"
    onnx_file(path, **{"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "Normalized_1_1"})
    stated = what_is_stated(path)
    assert (stated.mean, stated.scale, stated.channels) == ((127.5,), (1 / 127.5,), Channels.BGR)
    onnx_file(path, **{"Image.BitmapPixelFormat": "Bgr8"})
    assert stated_preprocess(path, FLOATS, IMAGE) is None  # no values
    onnx_file(path, note="nothing")
    assert stated_preprocess(path, FLOATS, IMAGE) is None
    path.write_bytes(b"\x08\x07 no model")
    assert stated_preprocess(path, FLOATS, IMAGE) is None


def test_ultralytics(tmp_path):
    path = tmp_path / "m.onnx"
    onnx_file(path, author="Ultralytics", task="detect", imgsz="[384, 640]", names="{0: 'person'}")
    stated = what_is_stated(path)
    step = PreprocessStep(StepKind.LETTERBOX, 384, 640, 114)
    assert stated.preprocess == Preprocess((step,), Channels.RGB, mean=(0.0,), scale=(1 / 255,))
    onnx_file(path, author="Ultralytics", task="classify", imgsz="224")
    kinds = [step.kind for step in whole_preprocess(path).steps]
    assert kinds == [StepKind.RESIZE_SHORT, StepKind.CENTRE_CROP]
    onnx_file(path, author="Ultralytics", imgsz="__import__('os')")
    assert stated_preprocess(path, FLOATS, IMAGE) is None


def test_hugging_face_preprocessor_beside_the_model(tmp_path):
    mean, deviation = [0.5, 0.25, 0.0], [0.5, 0.25, 1.0]
    values = {
        "do_resize": True,
        "size": {"shortest_edge": 256},
        "resample": 3,
        "do_center_crop": True,
        "crop_size": {"height": 224, "width": 224},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": mean,
        "image_std": deviation,
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    found = whole_preprocess(tmp_path / "m.onnx")
    assert [step.kind for step in found.steps] == [StepKind.RESIZE_SHORT, StepKind.CENTRE_CROP]
    assert found.steps[0].interpolation is Interpolation.BICUBIC
    pixel = np.array([255.0, 255.0, 255.0])
    expected = (pixel / 255 - mean) / deviation
    np.testing.assert_allclose((pixel - found.mean) * found.scale, expected)
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(DataError, match=r"preprocessor_config\.json: not JSON"):
        stated_preprocess(tmp_path / "m.onnx", FLOATS, IMAGE)


def test_paddle_detection_configuration(tmp_path):
    values = {
        "Preprocess": [
            {"type": "Resize", "target_size": [320, 320], "keep_ratio": False, "interp": 2},
            {"type": "NormalizeImage", "is_scale": True, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
            {"type": "Permute"},
        ]
    }
    (tmp_path / "infer_cfg.yml").write_text(yaml.safe_dump(values))
    found = whole_preprocess(tmp_path / "m.onnx")
    assert found.steps == (PreprocessStep(StepKind.RESIZE, 320, 320, interpolation=Interpolation.BICUBIC),)
    np.testing.assert_allclose(found.mean, [123.675, 116.28, 103.53])
    np.testing.assert_allclose(found.scale, 1 / (255 * np.array([0.229, 0.224, 0.225])))


def test_timm_configuration(tmp_path):
    values = {
        "mean": [0.5] * 3,
        "std": [0.5] * 3,
        "input_size": [3, 224, 224],
        "crop_pct": 0.9,
        "interpolation": "bicubic",
    }
    (tmp_path / "config.json").write_text(json.dumps({"pretrained_cfg": values}))
    found = whole_preprocess(tmp_path / "m.onnx")
    assert [(step.kind, step.height) for step in found.steps] == [
        (StepKind.RESIZE_SHORT, 249),
        (StepKind.CENTRE_CROP, 224),
    ]
    np.testing.assert_allclose((255 - np.array(found.mean)) * found.scale, 1)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "something else"}))
    assert stated_preprocess(tmp_path / "m.onnx", FLOATS, IMAGE) is None


def test_darknet_configuration(tmp_path):
    (tmp_path / "m.cfg").write_text("[net]\nwidth=320\nheight=256\nchannels=3\n[convolutional]\nfilters=4\n")
    found = whole_preprocess(tmp_path / "m.weights")
    assert [(step.kind, step.height, step.width) for step in found.steps] == [(StepKind.RESIZE, 256, 320)]
    assert (found.channels, found.mean, found.scale) == (Channels.RGB, (0.0,), (1 / 255,))
    (tmp_path / "m.cfg").write_text("[net]\nwidth=320\nheight=256\nletter_box=1\n[convolutional]\nfilters=4\n")
    found = whole_preprocess(tmp_path / "m.cfg")
    assert found.steps[0].kind is StepKind.LETTERBOX
    (tmp_path / "m.cfg").write_text("[net\nwidth=many")
    assert stated_preprocess(tmp_path / "m.cfg", FLOATS, IMAGE) is None


@pytest.mark.parametrize(
    ("dtype", "quant", "run", "pixel", "value"),
    [
        (DType.U8, None, DType.U8, 200, 200),
        (DType.I8, Quantization((0.5,), (3,)), DType.I8, 200, 72),  # stored as 200 - 128
        (DType.I8, Quantization((1 / 255,), (-128,)), DType.F32, 255, 1.0),
        (DType.U8, Quantization((1 / 128,), (128,)), DType.F32, 0, -1.0),
    ],
)
def test_types_of_8_bits_state_their_values(dtype, quant, run, pixel, value):
    types = InputTypes(TensorType(dtype, (1, 224, 224, 3), quant), TensorType(run, (1, 224, 224, 3)))
    stated = what_is_stated(None, types)
    assert (pixel - stated.mean[0]) * stated.scale[0] == pytest.approx(value)


def test_a_float_input_states_nothing():
    assert stated_preprocess(None, FLOATS, IMAGE) is None
