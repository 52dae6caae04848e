"""Compiled models as EPContext files: the blobs are inside, the rest computes what it should."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from dovetail.bundle import Bundle
from dovetail.compile import compile_model
from dovetail.errors import PlanError
from dovetail.exporters import to_onnx
from dovetail.formats.onnxruntime.assignment import CPU_PROVIDER
from dovetail.formats.onnxruntime.epcontext import DOMAIN, to_epcontext
from dovetail.ir import Graph
from dovetail.partition import partition
from dovetail.plan import Plan
from dovetail.quantize import QuantizedGraph, Range, Ranges, quantize

from ..conftest import make_plan

SOURCES = {"vsi:v853": "VSINPUExecutionProvider"}


def _made(graph: Graph, plan: Plan) -> tuple[QuantizedGraph, Bundle]:
    ranges = Ranges(graph.digest, "test", 1, {name: Range(-4.0, 4.0) for name in graph.types})
    quantized = quantize(graph, plan, ranges)
    return quantized, compile_model(partition(quantized))


def test_every_blob_is_a_node_that_names_its_provider(graph: Graph) -> None:
    _, bundle = _made(graph, make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32"))
    model = to_epcontext(bundle, SOURCES)
    onnx.checker.check_model(model)
    contexts = [node for node in model.graph.node if node.domain == DOMAIN]
    blobs = [part for part in bundle.partitions if part.blob.format != "onnx"]
    assert len(contexts) == len(blobs) == 2
    for node, part in zip(contexts, blobs, strict=True):
        found = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        assert found["ep_cache_context"] == part.blob.payload
        assert (found["source"], found["embed_mode"]) == (b"VSINPUExecutionProvider", 1)
        assert (tuple(node.input), tuple(node.output)) == (part.inputs, part.outputs)


def test_without_the_provider_onnx_runtime_refuses_it(graph: Graph) -> None:
    _, bundle = _made(graph, make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32"))
    with pytest.raises(Exception, match=r"VSINPU|EPContext"):
        ort.InferenceSession(to_epcontext(bundle, SOURCES).SerializeToString(), providers=[CPU_PROVIDER])


def test_a_blob_without_a_provider_is_an_error(graph: Graph) -> None:
    _, bundle = _made(graph, make_plan(graph, "vsi:v853@i8pc"))
    with pytest.raises(PlanError, match="vsi:v853"):
        to_epcontext(bundle, {})


def test_inlined_partitions_compute_what_the_whole_graph_does(graph: Graph) -> None:
    """Several partitions on the CPU, with constants and scales of equal names, against the exporter's one file."""
    from dataclasses import replace

    quantized, bundle = _made(graph, make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32", join="cpu@i8pc"))
    parts = tuple(
        replace(part, blob=replace(part.blob, format="onnx", payload=to_onnx(one.graph).SerializeToString()))
        for part, one in zip(bundle.partitions, partition(quantized).partitions, strict=True)
    )
    model = to_epcontext(replace(bundle, partitions=parts), {})
    onnx.checker.check_model(model, full_check=True)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    feeds = {"images": np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    one, other = (
        ort.InferenceSession(made.SerializeToString(), options, providers=[CPU_PROVIDER]).run(None, feeds)[0]
        for made in (model, to_onnx(quantized.graph))
    )
    np.testing.assert_array_equal(one, other)
