"""NNCF itself takes the exported scope and quantises around it."""

from __future__ import annotations

import json

import nncf
import numpy as np
import openvino as ov
import pytest

from dovetail.exporters import to_onnx
from dovetail.formats import WriteRequest, find_format
from dovetail.ir import Graph

from ..conftest import make_plan


@pytest.mark.slow
def test_nncf_quantises_everything_but_the_scope(graph: Graph) -> None:
    plan = make_plan(graph, "vsi:v853@i8pc", head_conv="cpu@fp32", sig="cpu@fp32", scale="cpu@fp32")
    scope = json.loads(find_format("nncf").write(WriteRequest(plan, graph)).content)
    model = ov.Core().read_model(to_onnx(graph).SerializeToString())
    rng = np.random.default_rng(0)
    data = nncf.Dataset([rng.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(4)])
    made = nncf.quantize(model, data, ignored_scope=nncf.IgnoredScope(**scope), subset_size=4)
    fed = {
        op.get_friendly_name(): {source.get_node().get_type_name() for source in op.input_values()}
        for op in made.get_ordered_ops()
    }
    assert "FakeQuantize" in fed["stem"]
    assert "FakeQuantize" not in fed["head/conv"] | fed["sig"] | fed["scale"]
    # A name that the model does not have is an error there too: the exported names are real.
    with pytest.raises(nncf.ValidationError):
        nncf.quantize(model, data, ignored_scope=nncf.IgnoredScope(names=["nothing"]), subset_size=4)
