"""NNCF itself takes the exported scope and quantises around it."""

from __future__ import annotations

import json
from pathlib import Path

import nncf
import numpy as np
import onnx
import openvino as ov
import pytest

from dovetail.errors import InexpressiblePlan
from dovetail.exporters import to_onnx
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.own_model import MODEL
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan.plan import plan_from_json
from dovetail.testing.networks import Network

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


def _normalised(folder: Path) -> tuple[bytes, Graph]:
    """Return a file with a batch normalisation behind a convolution, and the graph that is planned."""
    net = Network(1)
    made = net.conv(net.input("x", 1, 3, 8, 8), 4)
    statistics = [net.uniform(4, low=0.5, high=2.0) for _ in range(4)]
    last = net.op("Softmax", net.op("Relu", net.op("BatchNormalization", made, *statistics)), axis=1)
    content = to_onnx(net.graph(last)).SerializeToString()
    file = folder / "model.onnx"
    file.write_bytes(content)
    return content, normalize(load_model(file))


def test_a_file_with_batch_normalisations_has_the_planned_model_beside(tmp_path: Path) -> None:
    content, graph = _normalised(tmp_path)
    plan = make_plan(graph, "vsi:v853@i8pc", **{graph.nodes[-1].name: "cpu@fp32"})
    written = find_format("nncf").write(WriteRequest(plan, graph, model=content))
    beside = onnx.load_from_string(written.beside[MODEL])
    assert [node.op_type for node in beside.graph.node] == ["Conv", "Relu", "Softmax"]
    assert set(json.loads(written.content)["names"]) <= {node.name for node in beside.graph.node}
    assert "has a batch normalisation behind it there" in written.notes[0]
    own = to_onnx(graph).SerializeToString()
    assert not find_format("nncf").write(WriteRequest(plan, graph, model=own)).beside


def test_the_nearest_plan_is_for_the_graph_that_was_given(tmp_path: Path) -> None:
    content, graph = _normalised(tmp_path)
    with pytest.raises(InexpressiblePlan) as error:
        find_format("nncf").write(WriteRequest(make_plan(graph, "vsi:v853@i8pc"), graph, model=content))
    nearest = plan_from_json(error.value.nearest)
    nearest.check(graph)
    find_format("nncf").write(WriteRequest(nearest, graph, model=content))
