"""Sigmoids that gate their own input: which of them become one table with their product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random

import draws
import numpy as np
import pytest

from dovetail.backends.verisilicon.gates import find_rewrites
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.plugin import VsiBackend
from dovetail.backends.verisilicon.program import (
    Code,
    Program,
    ProgramOperator,
    ProgramTensor,
    Quant,
    StoredForm,
    TensorRole,
)
from dovetail.ir.precision import Precision
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.deploying import SimulatorJudge, WildOutcome
from dovetail.testing.wild.growth import Growth, UnfitError

from .conftest import drawn_input, expect_equal, kept_judge

_SIZE, _CHANNELS, _CASES = 8, 4, 25
_KINDS = ("swish", "swish", "swish", "conv", "conv", "mean", "scale", "leaky", "twice", "sigmoid")
_MAKERS = {
    **dict.fromkeys(("Ceil", "Elu", "Floor", "GlobalMaxPool", "LogSoftmax", "Round", "Sign", "Softplus"), ()),
    **dict.fromkeys(("Max", "Min", "PRelu"), ("constant",)),
    **dict.fromkeys(("Concat", "Mul"), ("input",)),
}
"""What makes the input of a gate, and its second operand."""
_AXES = ((2, 3), (3,), (1, 2), (2,), (1, 2, 3))
_MEAN = (0, 1, 0, 1)
"""A reduction's integers: its mean over both axes of a plane."""


def _program(
    *operators: tuple[str, tuple[int, ...]], code: Code = Code.U8, generation: Generation = Generation.VIP9000
) -> Program:
    """Return a program whose operators make tensors 1, 2, ... in order; tensor 0 goes in and the last comes out."""
    form = StoredForm(code, Quant.AFFINE)
    tensors = tuple(ProgramTensor(form, (8, 8, 4, 1), TensorRole.INNER) for _ in range(len(operators) + 1))
    made = tuple(
        ProgramOperator(kind, inputs, (index,), _MEAN if kind == "reduce" else ())
        for index, (kind, inputs) in enumerate(operators, 1)
    )
    return Program("vsi:v853", "", 0, generation, tensors, made, (("x", 0),), (("y", len(operators)),))


def _swish(tensor: int, made: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the two operators of a gate on a tensor; their results are `made` and the next."""
    return (("sigmoid", (tensor,)), ("mul", (tensor, made)))


def _gates(program: Program) -> dict[int, int]:
    return dict(find_rewrites(program).gates)


def test_a_chain_of_gates_is_a_chain_of_tables() -> None:
    chain = _program(("conv2d", (0,)), *_swish(1, 2), ("conv2d", (3,)), *_swish(4, 5))
    assert _gates(chain) == {2: 1, 5: 4}


def test_behind_a_gate_of_what_goes_in_the_search_ends() -> None:
    """The beginning is gone when the compiler searches again; one that it comes to before that is searched again."""
    behind = (*_swish(0, 1), ("conv2d", (2,)), *_swish(3, 4))
    assert _gates(_program(*behind)) == {1: 0}
    # Each reader of signed bytes that go in has its own conversion of them.
    assert _gates(_program(*behind, code=Code.I8)) == {4: 3}
    # The library puts the last operator of its list behind the first.
    earlier = (("conv2d", (0,)), *_swish(1, 2), ("conv2d", (3,)), *_swish(4, 5), *_swish(0, 7))
    assert _gates(_program(*earlier)) == {2: 1, 5: 4, 7: 6}


def test_behind_a_mean_of_what_is_computed_nothing_is_found() -> None:
    """That is a block that squeezes and excites, before and behind."""
    computed = (("relu", (0,)), ("reduce", (1,)), ("mul", (1, 2)), *_swish(3, 4))
    assert _gates(_program(*computed)) == {}
    assert _gates(_program(("reduce", (0,)), ("conv2d", (1,)), *_swish(2, 3))) == {3: 2}


def test_signed_bytes_that_go_in_are_converted_and_so_are_computed() -> None:
    behind = (("reduce", (0,)), ("conv2d", (1,)), *_swish(2, 3))
    assert _gates(_program(*behind, code=Code.I8)) == {}
    assert find_rewrites(_program(("reduce", (0,)), ("add", (0, 0)), code=Code.I8)).doubled == {1}


def test_beside_a_stream_processor_every_gate_is_a_table() -> None:
    behind = _program(*_swish(0, 1), ("reduce", (2,)), *_swish(3, 4), generation=Generation.STREAM)
    assert _gates(behind) == {1: 0, 4: 3}


def test_beside_a_stream_processor_a_gate_is_seen_through_changes_of_shape() -> None:
    seen = (("reshape", (0,)), ("sigmoid", (1,)), ("reshape", (2,)), ("mul", (0, 3)))
    assert _gates(_program(*seen, generation=Generation.STREAM)) == {3: 1}
    assert _gates(_program(*seen)) == {}
    program = _program(*seen, generation=Generation.STREAM)
    every_pair = list(program.tensors)
    every_pair[3] = replace(every_pair[3], shape=(1, 1, 4, 64))
    assert _gates(replace(program, tensors=tuple(every_pair))) == {}
    read_twice = (*seen, ("relu", (2,)), ("add", (4, 5)))
    assert _gates(_program(*read_twice, generation=Generation.STREAM)) == {}


def test_a_mean_that_reads_what_goes_in_first_hides_it() -> None:
    assert _gates(_program(("reduce", (0,)), *_swish(0, 2))) == {}
    assert _gates(_program(("conv2d", (0,)), *_swish(0, 2), ("reduce", (0,)))) == {2: 1}


def test_a_sum_of_what_goes_in_with_itself_ends_the_search() -> None:
    assert _gates(_program(("add", (0, 0)), *_swish(1, 2))) == {}
    assert _gates(_program(("conv2d", (0,)), ("add", (1, 1)), *_swish(2, 3))) == {3: 2}
    beside = (("add", (0, 0)), ("conv2d", (0,)), ("add", (2, 2)), *_swish(3, 4), ("conv2d", (5,)), *_swish(6, 7))
    assert _gates(_program(*beside)) == {4: 3}


def test_a_sum_with_itself_that_is_not_come_to_stays_a_sum() -> None:
    behind = _program(*_swish(0, 1), ("conv2d", (2,)), ("add", (3, 3)))
    assert find_rewrites(behind).doubled == set()
    assert find_rewrites(_program(("reduce", (0,)), ("add", (0, 0)))).doubled == set()
    assert find_rewrites(_program(("add", (0, 0)), ("relu", (1,)), code=Code.I8)).doubled == {0}
    assert find_rewrites(_program(("conv2d", (0,)), *_swish(1, 2), ("add", (3, 3)))).doubled == {3}


def test_what_a_kernel_of_the_library_makes_is_gated_by_two() -> None:
    for kind in ("maximum", "lrn", "softplus"):
        behind = (*_swish(1, 2), ("conv2d", (3,)), *_swish(4, 5))
        assert _gates(_program((kind, (0,)), *behind)) == {5: 4}, kind
    assert _gates(_program(("prelu", (0,)), *_swish(1, 2))) == {2: 1}
    assert _gates(_program(("prelu", (0,)), *_swish(1, 2), code=Code.I16)) == {}


def test_what_goes_in_and_is_only_put_together_begins_nothing() -> None:
    """It is no operator for the compiler; of computed tensors it is one that does not matter."""
    behind = (*_swish(1, 2), ("conv2d", (3,)), *_swish(4, 5))
    assert _gates(_program(("concat", (0, 0)), *behind)) == {}
    assert _gates(_program(("relu", (0,)), ("concat", (1, 0)), *_swish(2, 3))) == {3: 2}
    beside = _program(("concat", (0, 0)), *_swish(1, 2), ("relu", (0,)), *_swish(4, 5))
    assert _gates(beside) == {5: 4}


def _drawn(seed: int) -> WildCase:
    """Return a graph without two equal operators: of those the vendor's compiler loses one, and garbage is read."""
    rng, growth = Random(seed), Growth(seed)
    made = [growth.input(1, _CHANNELS, _SIZE, _SIZE) for _ in range(rng.choice([1, 1, 2]))]
    drawn = set[tuple[str, str]]()
    for _ in range(rng.randint(4, 8)):
        kind, data = rng.choice(_KINDS), rng.choice(made[-3:])
        if (kind, data) in drawn:
            continue
        drawn.add((kind, data))
        try:
            found = _grown(rng, growth, kind, data, made)
        except UnfitError:
            continue
        if growth.shape(found)[1] == _CHANNELS:
            made.append(found)
    return growth.case(seed)


def _grown(rng: Random, growth: Growth, kind: str, data: str, made: list[str]) -> str:
    """Return what an operator, or two, of a kind make."""
    if kind == "swish":
        gate = growth.op("Sigmoid", data)
        return growth.op("Mul", *((data, gate) if rng.random() < 0.7 else (gate, data)))
    if kind == "conv":
        weight = growth.rng.uniform(-0.5, 0.5, (_CHANNELS, growth.shape(data)[1], 1, 1))
        return growth.op("Conv", data, growth.constant(weight.astype(np.float32)))
    if kind == "mean":
        whole = [tensor for tensor in made if growth.shape(tensor)[2:] == (_SIZE, _SIZE)]
        return growth.op("ReduceMean", rng.choice(whole), axes=rng.choice(_AXES))
    if kind == "scale":
        # A product with itself is a table of squares: `cases/square-of-gate-imx8mp.npz`.
        return growth.op("Mul", data, rng.choice([tensor for tensor in made if tensor != data] or [growth.input(1)]))
    if kind == "twice":
        return growth.op("Add", data, data)
    extra = {"alpha": 0.2} if kind == "leaky" else {}
    return growth.op({"leaky": "LeakyRelu", "relu": "Relu", "sigmoid": "Sigmoid"}[kind], data, **extra)


@pytest.fixture(scope="module", params=["vsi:v853", "vsi:a311d", "vsi:imx8mp"])
def judge(request: pytest.FixtureRequest, vendor: VsiBackend) -> Iterator[SimulatorJudge]:
    with kept_judge(request.param, vendor) as simulator:
        yield simulator


@pytest.mark.sdk
@pytest.mark.parametrize(
    "precision", [Precision.U8, Precision.I8, Precision.I16], ids=lambda precision: str(precision.value)
)
def test_drawn_graphs_of_gates_and_means_are_equal(precision: Precision, judge: SimulatorJudge) -> None:
    """With a table of every gate 3 of 25 differ at 8 bits."""
    first = draws.seed_here()
    for seed in range(first, first + _CASES):
        found = judge.judge(_drawn(seed), precision)
        assert found.outcome is WildOutcome.EQUAL, f"seed {seed}: {found.outcome.value} {found.steps} {found.reason}"


@pytest.mark.sdk
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I16])
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d", "vsi:imx8mp"])
def test_gates_behind_every_kind_of_operator(target: str, precision: Precision, vendor: VsiBackend) -> None:
    """Whether the compiler joins them depends on what makes their input, too."""
    seed = draws.seed_here()
    cases = {f"{kind}, seed {seed + number}": _gated(seed + number, kind) for number, kind in enumerate(_MAKERS)}
    expect_equal(target, precision, vendor, cases)


def _gated(seed: int, kind: str) -> WildCase:
    growth = Growth(seed)
    data = drawn_input(growth, 1, _CHANNELS, _SIZE, _SIZE)
    constant = growth.constant(growth.rng.uniform(0.05, 0.2, (_CHANNELS, 1, 1)))
    others = [constant if other == "constant" else data for other in _MAKERS[kind]]
    made = growth.op(kind, data, *others, **({"axis": 1} if kind == "Concat" else {}))
    growth.op("Mul", made, growth.op("Sigmoid", made))
    return growth.case(seed)


_REDUCED: Mapping[str, Callable[[Growth, str], str]] = {
    "rows": lambda growth, data: growth.op("ReduceMean", data, growth.constant(np.asarray([1, 2]))),
    "planes": lambda growth, data: growth.op("GlobalAveragePool", data),
    "largest": lambda growth, data: growth.op("ReduceMax", data, growth.constant(np.asarray([1, 2]))),
    "reshaped": lambda growth, data: growth.op("Flatten", data),
    "least of two": lambda growth, data: growth.op("Min", data, drawn_input(growth, *growth.shape(data))),
    "largest of two": lambda growth, data: growth.op("Max", drawn_input(growth, *growth.shape(data)), data),
    "square root": lambda growth, data: growth.op("Sqrt", data),
    "power": lambda growth, data: growth.op("Pow", data, growth.constant(np.float32(2))),
    "part": lambda growth, data: growth.op("Slice", data, *(growth.constant(np.asarray([at])) for at in (0, 2, 1))),
}
"""What else reads the sigmoid of a gate."""


@pytest.mark.sdk
@pytest.mark.parametrize("precision", [Precision.U8, Precision.I16])
@pytest.mark.parametrize("target", ["vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:a733"])
def test_sigmoids_that_gate_and_are_reduced(target: str, precision: Precision, vendor: VsiBackend) -> None:
    """A reduction that looks at a sigmoid is no reader to the compiler: it would be given what nothing fills."""
    seed = draws.seed_here()
    cases: dict[str, WildCase] = {}
    for number, (kind, reduced) in enumerate(_REDUCED.items()):
        growth = Growth(seed + number)
        data = drawn_input(growth, 1, _CHANNELS, _SIZE, _SIZE)
        gate = growth.op("Sigmoid", data)
        reduced(growth, gate)
        growth.op("Mul", data, gate)
        cases[f"{kind}, seed {seed + number}"] = growth.case(seed + number)
    expect_equal(target, precision, vendor, cases)
