"""AI Edge Quantizer itself takes the exported recipe and quantises as the plan says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ai_edge_quantizer as edge
import numpy as np
import pytest
import tflite
from ai_edge_litert.interpreter import Interpreter

from dovetail.errors import FormatError
from dovetail.formats import ReadRequest, WriteRequest, find_format
from dovetail.ir import Graph
from dovetail.plan.placement import parse_placement

from ..conftest import make_graph, make_plan, placements

BASE = parse_placement("vsi:v853@i8pc")


def _recipe(graph: Graph, **places: str) -> list[dict[str, object]]:
    plan = make_plan(graph, "vsi:v853@i8pc", **places)
    return json.loads(find_format("ai-edge-quantizer").write(WriteRequest(plan, graph)).content)


def test_the_recipe_is_accepted_and_means_the_plan(graph: Graph) -> None:
    from ai_edge_quantizer import qtyping
    from ai_edge_quantizer.recipe_manager import RecipeManager

    manager = RecipeManager()
    manager.load_quantization_recipe(_recipe(graph, sig="cpu@fp32", head_conv="vsi:v853@w8a16"))
    ops = qtyping.TFLOperationName

    def said(op: object, scope: str) -> tuple[str, int | None]:
        key, config = manager.get_quantization_configs(op, scope)
        activations = config.activation_tensor_config
        return str(getattr(key, "value", key)), None if activations is None else activations.num_bits

    assert said(ops.LOGISTIC, "scores;") == ("no_quantize", None)
    assert said(ops.CONV_2D, "head/conv:0;") == ("min_max_uniform_quantize", 16)
    assert said(ops.CONV_2D, "stem_out;") == ("min_max_uniform_quantize", 8)
    # A name that only begins alike is another operator.
    assert said(ops.CONV_2D, "head/conv:01;") == ("min_max_uniform_quantize", 8)


def test_the_recipe_goes_there_and_back(graph: Graph) -> None:
    content = json.dumps(_recipe(graph, sig="cpu@fp32", head_conv="vsi:v853@w8a16")).encode()
    plan = find_format("ai-edge-quantizer").read(content, ReadRequest(graph, BASE))
    wanted = make_plan(graph, "vsi:v853@i8pc", sig="cpu@fp32", head_conv="vsi:v853@w8a16")
    assert placements(graph, plan) == placements(graph, wanted)


@pytest.mark.models
def test_a_real_network_is_quantised_as_the_recipe_says(models: Path) -> None:
    """Quantise a float TFLite network with one convolution left out: it alone keeps float weights."""
    source = models / "mnist_conv_fc" / "conv_fc_mnist.tflite"
    name = _convolutions(source.read_bytes())[0][0]
    rules = _recipe(make_graph(), sig="cpu@fp32")
    rules[-1]["regex"] = f"^{re.escape(name)};"
    details = Interpreter(str(source)).get_input_details()[0]
    runner = next(iter(Interpreter(str(source)).get_signature_list().items()))
    rng = np.random.default_rng(0)
    samples = [{runner[1]["inputs"][0]: rng.random(details["shape"], dtype=np.float32)} for _ in range(2)]
    maker = edge.quantizer.Quantizer(str(source))
    maker.load_quantization_recipe(rules)
    made = maker.quantize(maker.calibrate({runner[0]: samples})).quantized_model
    kinds = dict(_convolutions(bytes(made)))
    assert kinds[name] == tflite.TensorType.FLOAT32
    assert tflite.TensorType.INT8 in kinds.values()


def _convolutions(model: bytes) -> list[tuple[str, int]]:
    """Return the output and the type of the weights of every operator with weights and bias."""
    graph = tflite.Model.GetRootAsModel(model, 0).Subgraphs(0)
    found = []
    for index in range(graph.OperatorsLength()):
        op = graph.Operators(index)
        if op.InputsLength() == 3:
            found.append((graph.Tensors(op.Outputs(0)).Name().decode(), graph.Tensors(op.Inputs(1)).Type()))
    return found


@pytest.mark.parametrize("bits", [[], {}, None, 4])
def test_bits_that_are_no_known_number_are_refused(bits: object, graph: Graph) -> None:
    rules = _recipe(graph, head_conv="vsi:v853@w8a16")
    rules[-1]["op_config"]["activation_tensor_config"]["num_bits"] = bits  # type: ignore[index]
    with pytest.raises(FormatError, match="is not known"):
        find_format("ai-edge-quantizer").read(json.dumps(rules).encode(), ReadRequest(graph, BASE))
    (wrong,) = find_format("ai-edge-quantizer").lint(json.dumps(rules).encode(), ReadRequest(graph, BASE))
    assert wrong.code == "UNKNOWN_WORD"
