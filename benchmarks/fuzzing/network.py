"""A small network with a plan, ranges and a bundle, made through the library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import numpy_helper, parser

import dovetail
from dovetail.bundle import Bundle
from dovetail.importers import load_onnx
from dovetail.ir import Graph
from dovetail.plan import Override, Plan, parse_placement
from dovetail.plan.repairs import RepairRecord
from dovetail.quantize.ranges import Range

_TEXT = """<ir_version: 8, opset_import: ["": 17]>
small (float[1,3,8,8] x) => (float[1,4,8,8] y)
<float[4,3,3,3] w>
{
  c = Conv<pads = [1, 1, 1, 1]>(x, w)
  r = Relu(c)
  s = Sigmoid(r)
  y = Mul(r, s)
}"""


@dataclass(frozen=True)
class Small:
    """A graph, and what commands make of it."""

    graph: Graph
    plan: Plan
    ranges: dovetail.Ranges
    bundle: Bundle


def model_bytes() -> bytes:
    """Return the network as an ONNX file; its nodes have names."""
    model = parser.parse_model(_TEXT)
    del model.graph.initializer[:]
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    for node in model.graph.node:
        node.name = f"{node.op_type}:{node.output[0]}"
    return bytes(model.SerializeToString())


def small_network() -> Small:
    """Return the network; its plan has an exception and a repair, its bundle runs on the CPU."""
    graph = dovetail.normalize(load_onnx(model_bytes()))
    last = graph.nodes[-1].name
    raised = Override(parse_placement("cpu@fp32"), "raised by hand")
    repair = RepairRecord("equalise", {"w": (1, -2, 3)})
    plan = Plan(graph.digest, parse_placement("vsi:v853@i8pc"), {last: raised}, (repair,))
    names = [name for name in graph.types if name not in graph.constants]
    ranges = dovetail.Ranges(graph.digest, "minmax", 4, {name: Range(-1.0, 2.5) for name in names}, {"c": (0.5, -0.25)})
    here = dovetail.make_plan(graph, dovetail.Recipe(parse_placement("cpu@fp32")), {"cpu": dovetail.find_target("cpu")})
    empty = dovetail.Ranges(graph.digest, "none", 0, {})
    bundle = dovetail.compile_model(dovetail.partition(dovetail.quantize(graph, here, empty)))
    return Small(graph, plan, ranges, bundle)
