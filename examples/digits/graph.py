"""Write the detector as ONNX, node by node, with names that read as an address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from canvas import CANVAS_PX, CLASSES
from imbalance import Kernel
from network import ANCHOR_PX, BLOCKS, CELL_PX, GRID
from onnx import TensorProto, helper, numpy_helper

INPUT, OUTPUT = "images", "detections"  # `images` is also the key in calib.npz and eval.npz
OPSET, IR_VERSION = 17, 8


class _Writer:
    """Collect nodes and initialisers; every method returns the name of its output tensor."""

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self.kernels = kernels
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def op(self, kind: str, name: str, inputs: Sequence[str], **attributes: int | list[int]) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_out"], name))
        for key, value in sorted(attributes.items()):
            self.nodes[-1].attribute.append(helper.make_attribute(key, value))
        return f"{name}_out"

    def conv(self, name: str, x: str, stride: int = 1, act: bool = True) -> str:
        kernel = self.kernels[name]
        size = kernel.weight.shape[2]
        y = self.op(
            "Conv",
            name,
            [x, self.constant(f"{name}/weight", kernel.weight), self.constant(f"{name}/bias", kernel.bias)],
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[size // 2] * 4,
            group=kernel.weight.shape[0] if name.endswith("/dw") else 1,
        )
        return self.op("Relu", f"{name}_relu", [y]) if act else y

    def block(self, name: str, x: str, stride: int, residual: bool) -> str:
        y = self.conv(f"{name}/dw", self.conv(f"{name}/expand", x), stride)
        y = self.conv(f"{name}/project", y, act=False)
        return self.op("Add", f"{name}/add", [x, y]) if residual else y

    def head(self, x: str) -> str:
        """Decode as YOLO does, and put boxes in pixels and scores in 0..1 into one tensor."""
        box, scores = self.conv("head/box", x), self.conv("head/cls", x)
        ticks = (np.arange(GRID, dtype=np.float32) - 0.5) * CELL_PX
        corner = np.stack(np.meshgrid(ticks, ticks, indexing="xy"))[None].astype(np.float32)
        xy = self.op("Sigmoid", "head/xy_sigmoid", [self.conv("head/xy", box, act=False)])
        xy = self.op("Mul", "head/xy_scale", [xy, self.constant("head/cell_px", np.array([2 * CELL_PX], np.float32))])
        xy = self.op("Add", "head/xy_shift", [xy, self.constant("head/corner_px", corner)])
        wh = self.op("Exp", "head/wh_exp", [self.conv("head/wh", box, act=False)])
        wh = self.op("Mul", "head/wh_scale", [wh, self.constant("head/anchor_px", np.array([ANCHOR_PX], np.float32))])
        score = self.op("Sigmoid", "head/score_sigmoid", [self.conv("head/score", scores, act=False)])
        y = self.op("Concat", "head/concat", [xy, wh, score], axis=1)
        shape = self.constant("head/rows", np.array([0, 5 + CLASSES, GRID * GRID], np.int64))
        y = self.op("Reshape", "head/reshape", [y, shape])
        self.nodes.append(helper.make_node("Transpose", [y], [OUTPUT], "head/transpose", perm=[0, 2, 1]))
        return OUTPUT


def write_graph(kernels: Mapping[str, Kernel]) -> onnx.ModelProto:
    """Return the checked model: `images` [N, 1, 40, 40] in 0..255 to `detections` [N, 25, 15]."""
    writer = _Writer(kernels)
    x = writer.conv("stem/conv", INPUT, stride=2)
    for name, inner, _, outer, stride in BLOCKS:
        x = writer.block(name, x, stride, residual=stride == 1 and inner == outer)
    writer.head(x)
    graph = helper.make_graph(
        writer.nodes,
        "digits",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["N", 1, CANVAS_PX, CANVAS_PX])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["N", GRID * GRID, 5 + CLASSES])],
        writer.constants,
    )
    model = helper.make_model(
        graph,
        producer_name="dovetail-examples",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model, full_check=True)
    return model
