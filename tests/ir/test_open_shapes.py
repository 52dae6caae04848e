"""Inputs of open shapes: what is said of them, and what has no figures."""

from __future__ import annotations

import pytest

from dovetail.errors import LoadError
from dovetail.ir import Graph, parse_graph
from dovetail.ir.open_shapes import check_fixed, fixed_text, open_inputs, spelt_shape


def _graph(*shapes: str) -> Graph:
    inputs = "".join(f'input "x{number}": f32[{shape}]\n' for number, shape in enumerate(shapes))
    return parse_graph(f'graph "g" opset 21\n{inputs}"n" = Relu("x0") -> ("y": f32[{shapes[0]}])\noutput "y"\nend\n')


def test_the_batch_alone_may_be_open() -> None:
    for graph in (_graph('"N", 3, 8, 8'), _graph("1, 3"), _graph("?, 3")):
        assert open_inputs(graph) == {}
        check_fixed(graph, "nothing is known")


def test_every_open_input_is_named_with_the_option_that_fixes_it() -> None:
    graph = _graph('"batch", 3, "height", ?', "1, 4", '2, "words"')
    assert list(open_inputs(graph)) == ["x0", "x2"]
    texts = [(spelt_shape(shape), fixed_text(name, shape)) for name, shape in open_inputs(graph).items()]
    assert texts == [("batchx3xheightx?", "x0=1,3,height,?"), ("2xwords", "x2=2,words")]
    with pytest.raises(LoadError, match=r"'x0' of 'g' is batchx3xheightx[?]: .* nothing is known") as caught:
        check_fixed(graph, "nothing is known")
    assert (caught.value.option, "x0=1,3,height,?" in str(caught.value)) == ("shape", True)
