"""What the quantiser refuses."""

from __future__ import annotations

import pytest

from dovetail.errors import QuantizeError
from dovetail.ir import DType, Graph, Node, Quantization, TensorType
from dovetail.quantize import Quantizer, Ranges


def test_a_quantised_graph_is_not_quantised_again():
    kind = TensorType(DType.U8, (1, 4), Quantization((0.5,), (128,)))
    graph = Graph(
        name="g",
        nodes=(Node("relu", "Relu", ("x",), ("y",)),),
        inputs=("x",),
        outputs=("y",),
        types={"x": kind, "y": kind},
        constants={},
    )
    with pytest.raises(QuantizeError, match="quantised already"):
        Quantizer(graph, Ranges(graph.digest, "minmax", 1, {}))
