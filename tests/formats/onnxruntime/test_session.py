"""A session opens only when ONNX Runtime's own report equals the plan."""

from __future__ import annotations

from pathlib import Path

import needs
import numpy as np
import pytest

from dovetail.errors import PlanError
from dovetail.exporters import to_onnx
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.onnxruntime.assignment import CPU_PROVIDER
from dovetail.formats.onnxruntime.session import SessionRequest, open_session
from dovetail.ir import Graph

from ..conftest import make_plan


def test_the_session_runs_and_every_node_is_reported(graph: Graph) -> None:
    session, found = open_session(
        to_onnx(graph).SerializeToString(), graph, make_plan(graph, "cpu@fp32"), SessionRequest()
    )
    assert dict(found.providers) == {node.name: CPU_PROVIDER for node in graph.nodes}
    assert found.unreported == ()
    assert session.run(None, {"images": np.zeros((1, 3, 8, 8), np.float32)})[0].shape == (1, 8, 64)


def test_a_node_elsewhere_is_an_error(graph: Graph) -> None:
    """Every node runs on the CPU under a plan that has one of them elsewhere."""
    plan = make_plan(graph, "cpu@fp32", sig="vsi:v853@fp32")
    request = SessionRequest({"vsi:v853": "AzureExecutionProvider"})
    with pytest.raises(PlanError, match=r"'sig' \(CPUExecutionProvider, planned AzureExecutionProvider\)"):
        open_session(to_onnx(graph).SerializeToString(), graph, plan, request)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (SessionRequest(), "no execution provider is named for target 'vsi:v853'"),
        (
            SessionRequest({"vsi:v853": "VSINPUExecutionProvider"}),
            "no execution provider 'VSINPUExecutionProvider'.*give its library",
        ),
        (
            SessionRequest({"vsi:v853": "NoExecutionProvider"}, {"NoExecutionProvider": Path("nothing.so")}),
            "no plug-in",
        ),
    ],
)
def test_a_provider_that_is_missing_is_an_error(request_: SessionRequest, message: str, graph: Graph) -> None:
    with pytest.raises(PlanError, match=message):
        open_session(to_onnx(graph).SerializeToString(), graph, make_plan(graph, "vsi:v853@i8pc"), request_)


def test_a_model_that_does_not_load_is_an_error(graph: Graph) -> None:
    with pytest.raises(PlanError, match="does not load"):
        open_session(b"no model", graph, make_plan(graph, "cpu@fp32"), SessionRequest())


def test_fused_nodes_are_named(graph: Graph) -> None:
    model = to_onnx(graph).SerializeToString()
    _, found = open_session(model, graph, make_plan(graph, "cpu@fp32"), SessionRequest(optimised=True))
    assert set(found.providers) | set(found.unreported) == {node.name for node in graph.nodes}


def test_a_plug_in_that_takes_all_or_is_refused(graph: Graph) -> None:
    plugin = needs.package("onnxruntime_ep_openvino")
    name = plugin.get_ep_names()[0]
    request = SessionRequest({"vsi:v853": name}, {name: Path(plugin.get_library_path())})
    plan = make_plan(graph, "vsi:v853@i8pc")
    listing = to_onnx(graph).SerializeToString()
    written = find_format("onnxruntime-layers").write(WriteRequest(plan, graph, listing=listing))
    session, found = open_session(written.content, graph, plan, request)
    assert set(found.providers.values()) == {name}
    del session
    with pytest.raises(PlanError, match="'sig'"):
        open_session(listing, graph, make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32"), request)
