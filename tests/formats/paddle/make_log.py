"""Write the log that Paddle Lite would print for a network, for tests: `python make_log.py MODEL.onnx LOG`.

The operators have Paddle's types and the tensors the model's own names, as paddle2onnx keeps them. The shape of the log
is that of v2.12: clusters, DOT block, operators, with lines of the driver in between.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dovetail.formats.paddle.operators import TIMVX_OPERATORS
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize

TYPES = {
    "Conv": "conv2d",
    "Relu": "relu",
    "Add": "elementwise_add",
    "Mul": "elementwise_mul",
    "Sigmoid": "sigmoid",
    "Exp": "exp",
    "Concat": "concat",
    "Reshape": "reshape2",
    "Transpose": "transpose2",
}


def operator_lines(graph: Graph) -> list[tuple[str, str]]:
    """Return the type and the line of every operator, feed and fetch too."""
    found = [("feed", f"feed:feed:{name}") for name in graph.inputs]
    for node in graph.nodes:
        kind = TYPES[node.op]
        if node.op == "Conv" and node.integer("group", 1) > 1:
            kind = "depthwise_conv2d"
        ins = [graph.origin_of(name) for name in node.inputs if name and graph.types[name].holds_reals]
        found.append((kind, f"{kind}:{','.join(dict.fromkeys(ins))}:{graph.origin_of(node.outputs[0])}"))
    return [*found, *(("fetch", f"fetch:{name}:fetch") for name in graph.outputs)]


def make_log(graph: Graph) -> str:
    """Return the log of a run with everything on the NPU."""
    lines = operator_lines(graph)
    boxes: list[str] = []
    seen: dict[str, int] = {}
    for number, (kind, _) in enumerate(lines):
        index = seen.setdefault(kind, 0)
        seen[kind] += 1
        suffix = "_subgraph_0" if kind in TIMVX_OPERATORS else ""
        label = f'label="{kind}_{index}_op{suffix}" shape="box" style="filled" color="black" fillcolor="red"'
        boxes.append(f"   node_{number}[{label}]")
    noise = "[I  1/ 1 15:22:58.287 ...lite/core/optimizer/optimizer.cc:65 ApplyPasses] == Running pass: subgraph"
    driver = "D [setup_node:441]Setup node id[0] uid[4294967295] op[NBG]"
    body = [text for _, text in lines]
    middle = len(body) // 2
    parts = [noise, "subgraph clusters: 1", "digraph G {", *boxes, "} // end G", "subgraph operators: "]
    parts += [*body[:middle], driver, *body[middle:], "", noise]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(make_log(normalize(load_model(sys.argv[1]))), encoding="utf-8")
