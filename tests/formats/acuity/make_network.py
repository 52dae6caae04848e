"""Write the files that Acuity makes of a network, for tests and how-tos: `python make_network.py MODEL CALIB FOLDER`.

Layers are called as Acuity calls them: the ONNX name of the output and a number that counts from the end of the graph.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import dovetail
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.acuity import read_table, write_table
from dovetail.ir import Graph
from dovetail.ir.roles import Role, input_roles
from dovetail.plan import Recipe

OPS = {
    "Conv": "convolution",
    "Relu": "relu",
    "Add": "add",
    "Mul": "multiply",
    "Sigmoid": "sigmoid",
    "Exp": "exp",
    "Concat": "concat",
    "Reshape": "reshape",
    "Transpose": "permute",
}


def make_network(graph: Graph) -> dict[str, object]:
    """Return the network as `pegasus import onnx` writes it."""
    entries: list[tuple[str, str, list[str]]] = []
    for name in reversed(graph.outputs):
        entries.append((f"attach_{name}/out0", "output", [name]))
    for node in reversed(graph.nodes):
        roles = input_roles(graph, node)
        data = [name for name, role in zip(node.inputs, roles, strict=True) if role is Role.DATA]
        entries.append((node.outputs[0], OPS[node.op], data))
        entries += [(name, "variable", []) for name in data if name in graph.constants]
    entries += [(name, "input", []) for name in graph.inputs]
    lids = {name: f"{name}_{number}" for number, (name, _, _) in enumerate(entries)}
    layers = {
        lids[name]: {
            "name": name,
            "op": op,
            "parameters": {},
            "inputs": [f"@{lids[source]}:out0" for source in sources],
            "outputs": ["out0"],
        }
        for name, op, sources in entries
    }
    meta = {"Name": graph.name, "AcuityVersion": "6.39.1", "Platform": "tensorflow", "Org_Platform": "onnx"}
    return {"MetaData": meta, "Layers": layers, "quantize_info": {}}


def main(model: str, calib: str, folder: Path) -> None:
    """Write the network, and a quantised table with a hybrid list that somebody tried by hand."""
    graph = dovetail.normalize(dovetail.load_model(model))
    network = json.dumps(make_network(graph), indent=4).encode()
    stem = Path(model).stem
    (folder / f"{stem}.json").write_bytes(network + b"\n")
    base = dovetail.parse_placement("vsi:v853@i8pc")
    targets = {base.target: dovetail.find_target(base.target)}
    plan = dovetail.make_plan(graph, Recipe(base), targets)
    ranges = dovetail.calibrate(graph, dovetail.open_samples(calib, dovetail.specs_of(graph))).ranges
    request = WriteRequest(plan, graph, network, quantized=dovetail.quantize(graph, plan, ranges))
    text = find_format("acuity-quantize").write(request).text
    tried = next(lid for lid, layer in make_network(graph)["Layers"].items() if layer["op"] == "concat")  # type: ignore[attr-defined]
    text = text.replace("customized_quantize_layers: {}\n", f"customized_quantize_layers:\n  {tried}: int16\n")
    assert write_table(read_table(text.encode(), "table")) == text
    (folder / f"{stem}.quantize").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
