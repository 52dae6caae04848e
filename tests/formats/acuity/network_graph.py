"""The graph behind the sample network: the ONNX model that was imported, as far as names and links go."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dovetail.ir import DType, Graph, Node, TensorType

GOLDEN = Path(__file__).parents[1] / "golden" / "acuity"
_OPS = {
    "reshape": "Reshape",
    "concat": "Concat",
    "multiply": "Mul",
    "slice": "Slice",
    "add": "Add",
    "pow": "Pow",
    "sigmoid": "Sigmoid",
    "subtract": "Sub",
    "permute": "Transpose",
    "convolution": "Conv",
    "pooling": "MaxPool",
}


def ymini_graph() -> Graph:
    """Return the graph; a swish is the Sigmoid and the Mul that Acuity fused."""
    layers = json.loads((GOLDEN / "ymini.json").read_text())["Layers"]
    types: dict[str, TensorType] = {}
    constants: dict[str, np.ndarray] = {}
    nodes: dict[str, list[Node]] = {}
    made: dict[str, str] = {}
    inputs: list[str] = []

    def tensor(lid: str) -> str:
        layer = layers[lid]
        ins = [text[1:].rpartition(":")[0] for text in layer["inputs"]]
        if lid in made:
            return made[lid]
        if layer["op"] in ("input", "variable"):
            name = layer["name"]
            types[name] = TensorType(DType.F32, None)
            if layer["op"] == "input":
                inputs.append(name)
            else:
                constants[name] = np.ones((1,), np.float32)
                types[name] = TensorType(DType.F32, (1,))
        elif "acuity_mark" in lid or layer["op"] == "output":
            return tensor(ins[0])
        else:
            sources = [tensor(source) for source in ins]
            name = layer["name"]
            if layer["op"] == "swish":
                name = lid.split("_")[2]
                gate = lid.split("_")[0]
                types[gate] = TensorType(DType.F32, None)
                nodes[gate] = [Node(gate, "Sigmoid", (sources[0],), (gate,))]
                sources.append(gate)
            op = "Mul" if layer["op"] == "swish" else _OPS[layer["op"]]
            if op == "Conv":
                weight = f"{name}.w"
                constants[weight] = np.ones((4, 4, 1, 1), np.float32)
                types[weight] = TensorType(DType.F32, (4, 4, 1, 1))
                sources.append(weight)
            types[name] = TensorType(DType.F32, None)
            nodes[name] = [Node(name, op, tuple(sources), (name,))]
        made[lid] = name
        return name

    out = tensor("attach_output/out0_0")
    flat = [node for group in nodes.values() for node in group]
    ordered: list[Node] = []
    known = {*inputs, *constants}
    while flat:
        ready = [node for node in flat if all(name in known for name in node.inputs)]
        ordered += ready
        known |= {node.outputs[0] for node in ready}
        flat = [node for node in flat if node not in ready]
    return Graph("ymini", tuple(ordered), tuple(inputs), (out,), types, constants)
