"""A layer placed in float stays in float, also between quantised neighbours."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail.ir import Graph, as_constant, parse_graph
from dovetail.plan import Rule
from dovetail.quantize import load_float

TEXTS = {
    "Conv": '"mid" = Conv("a", "w") -> ("b": f32[1, 8, 6, 6]) {"group": 8, "pads": [1, 1, 1, 1]}',
    "ConvTranspose": '"mid" = ConvTranspose("a", "w") -> ("b": f32[1, 8, 6, 6]) {"group": 8, "pads": [1, 1, 1, 1]}',
    "MatMul": '"mid" = MatMul("a", "w") -> ("b": f32[1, 8, 6, 6]) {}',
}
SHAPES = {"Conv": (8, 1, 3, 3), "ConvTranspose": (8, 1, 3, 3), "MatMul": (6, 6)}


def net(op: str) -> Graph:
    """Sigmoid, one layer with weights that span four decades, Tanh."""
    shape = SHAPES[op]
    graph = parse_graph(
        f"""graph "g" opset 21
input "x": f32[1, 8, 6, 6]
input "w": f32{list(shape)}
"first" = Sigmoid("x") -> ("a": f32[1, 8, 6, 6]) {{}}
{TEXTS[op]}
"last" = Tanh("b") -> ("y": f32[1, 8, 6, 6]) {{}}
output "y"
end
"""
    )
    rng = np.random.default_rng(0)
    spread = np.logspace(-4, 0, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    weight = as_constant(rng.normal(size=shape) * spread, np.float32)
    return graph.evolve(inputs=("x",), constants={"w": weight})


@pytest.mark.parametrize("op", TEXTS)
@pytest.mark.parametrize("around", ["i16", "i8"])
def test_weights_of_a_float_layer_are_not_quantised(op: str, around: str) -> None:
    graph = net(op)
    x = np.random.default_rng(1).normal(size=(1, 8, 6, 6)).astype(np.float32)
    calibration = dovetail.calibrate(graph, dovetail.open_samples([{"x": x}], dovetail.specs_of(graph)))
    recipe = dovetail.Recipe(
        dovetail.parse_placement(f"vsi:v853@{around}"),
        (),
        (Rule(dovetail.parse_placement("cpu@fp32"), "mid"),),
    )
    plan = dovetail.make_plan(graph, recipe, {target.name: target for target in dovetail.known_targets()})
    bundle = dovetail.compile_model(dovetail.partition(dovetail.quantize(graph, plan, calibration.ranges)))
    with dovetail.open_session(bundle) as session:
        run = session.run({"x": x}, ["a", "b"])
    # The layer in float by its own definition, on the inputs that it was given.
    float_layer = load_float(
        parse_graph(
            '\n'.join(
                ['graph "f" opset 21', 'input "a": f32[1, 8, 6, 6]', f'input "w": f32{list(SHAPES[op])}',
                 TEXTS[op], 'output "b"', "end", ""]
            )
        )
    )  # fmt: skip
    expected = float_layer.run({"a": run.real("a"), "w": graph.constants["w"]})["b"]
    np.testing.assert_allclose(run.real("b"), expected, rtol=1e-5, atol=1e-6)
