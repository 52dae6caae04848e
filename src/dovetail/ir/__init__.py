"""The intermediate representation: immutable, verified graphs in ONNX operator semantics (numpy only)."""

from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.graph import OPSET, Graph, as_constant, nodes_in_order, prune, read_tensors
from dovetail.ir.node import DOVETAIL_DOMAIN, Node
from dovetail.ir.parse import parse_graph, parse_type
from dovetail.ir.storage import graph_from_bytes, graph_to_bytes, load_graph, save_graph
from dovetail.ir.text import print_graph, print_type
from dovetail.ir.types import Dim, Quantization, Shape, TensorType, dequantize_array, quantize_array

__all__ = [
    "DOVETAIL_DOMAIN",
    "OPSET",
    "AnyArray",
    "DType",
    "Dim",
    "Graph",
    "Node",
    "Quantization",
    "Shape",
    "TensorType",
    "as_constant",
    "dequantize_array",
    "graph_from_bytes",
    "graph_to_bytes",
    "load_graph",
    "nodes_in_order",
    "parse_graph",
    "parse_type",
    "print_graph",
    "print_type",
    "prune",
    "quantize_array",
    "read_tensors",
    "save_graph",
]
