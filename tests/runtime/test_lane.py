"""Memory of border tensors: taken again only when it is surely read, and never what a caller holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.protocols import Blob, ExecutableAbilities, InPlace
from dovetail.bundle import Bundle
from dovetail.bundle.bundle import CompiledPartition
from dovetail.ir import AnyArray, DType, TensorType
from dovetail.ir.precision import Precision
from dovetail.plan import Placement, Plan
from dovetail.runtime import Session
from dovetail.runtime.lane import layout_of, routes_of
from dovetail.runtime.stage import Stage, flow_of

KIND = TensorType(DType.F32, (1, 4))
Step = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass
class Summing:
    """Give the sum of the inputs plus one, in place."""

    outputs: tuple[str, ...]

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        return {name: np.asarray(sum(inputs.values()) + np.float32(1)) for name in (*self.outputs, *taps)}

    def empty(self, output: str, memory: AnyArray | None) -> AnyArray:
        assert memory is not None
        return memory[:16].view(np.float32).reshape(1, 4)

    def run_into(self, inputs: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray]) -> None:
        for name, value in self.run(inputs).items():
            outputs[name][...] = value

    def close(self) -> None:
        pass

    def abilities(self) -> ExecutableAbilities:
        return ExecutableAbilities(in_place=InPlace(self.empty, self.run_into))


@dataclass
class Handing:
    """Give views of the first input, not in place."""

    outputs: tuple[str, ...]

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        return {name: next(iter(inputs.values())).reshape(1, 4) for name in (*self.outputs, *taps)}

    def close(self) -> None:
        pass

    def abilities(self) -> ExecutableAbilities:
        return ExecutableAbilities()


def _stages(steps: Sequence[Step], handing: Sequence[int] = ()) -> list[Stage]:
    made: list[Stage] = []
    for index, (inputs, outputs) in enumerate(steps):
        kinds = dict.fromkeys((*inputs, *outputs), KIND)
        part = CompiledPartition("t", "summing", "1", Blob("", b""), inputs, outputs, kinds)
        executable = Handing(outputs) if index in handing else Summing(outputs)
        made.append(Stage(index, part, "device", executable, part.signature))
    return made


def _session(stages: Sequence[Stage], outputs: Sequence[str]) -> Session:
    plan = Plan("", Placement("t", Precision.FP32))
    parts = tuple(stage.part for stage in stages)
    return Session(Bundle("b", plan, {"x": KIND}, dict.fromkeys(outputs, KIND), parts, {}), stages)


def _x(value: float) -> dict[str, AnyArray]:
    return {"x": np.full((1, 4), value, np.float32)}


def _places(stages: Sequence[Stage], outputs: Sequence[str]) -> Mapping[str, int]:
    return layout_of(stages, routes_of(stages, frozenset(outputs)), flow_of(stages)).places


def test_a_chain_needs_two_pieces_of_memory() -> None:
    names = ["x", *(f"t{index}" for index in range(9))]
    stages = _stages([((before,), (after,)) for before, after in pairwise(names)])
    places = _places(stages, names[-1:])
    assert [places[name] for name in names[1:-1]] == [0, 1, 0, 1, 0, 1, 0, 1]
    with _session(stages, names[-1:]) as session:
        for value in (0.0, 5.0):
            np.testing.assert_array_equal(session.run(_x(value)).outputs[names[-1]], np.full((1, 4), value + 9))


def test_a_tensor_that_is_read_later_keeps_its_place() -> None:
    steps = [(("x",), ("a",)), (("a",), ("b",)), (("b",), ("c",)), (("a", "c"), ("y",))]
    places = _places(_stages(steps), ["y"])
    assert len({places[name] for name in "ab"}) == len({places[name] for name in "ac"}) == 2


@st.composite
def nets(draw: st.DrawFn) -> list[Step]:
    """Draw stages that read some of the tensors before them, and make one or two each."""
    known, steps = ["x"], []
    for index in range(draw(st.integers(1, 9))):
        inputs = tuple(draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True)))
        outputs = tuple(f"t{index}{letter}" for letter in "ab"[: draw(st.integers(1, 2))])
        steps.append((inputs, outputs))
        known += outputs
    return steps


@given(nets(), st.data())
def test_memory_is_taken_again_only_when_every_reader_must_have_ended(steps: list[Step], data: st.DataObject) -> None:
    handing = data.draw(st.lists(st.integers(0, len(steps) - 1), max_size=2))
    stages = _stages(steps, handing)
    made = [name for _, outputs in steps for name in outputs]
    keep = sorted({made[-1], *data.draw(st.lists(st.sampled_from(made), max_size=2))})
    maker = {name: index for index, (_, outputs) in enumerate(steps) for name in outputs}

    def ended(index: int) -> set[int]:
        sources = {maker[name] for name in steps[index][0] if name in maker}
        return sources.union(*(ended(source) for source in sources))

    places = _places(stages, keep)
    for one in places:
        for other in places:
            if maker[one] < maker[other] and places[one] == places[other]:
                users = {maker[one], *(index for index, (inputs, _) in enumerate(steps) if one in inputs)}
                assert users <= ended(maker[other])
            assert maker[one] != maker[other] or one == other or places[one] != places[other]
    with _session(stages, keep) as session:
        first, second = session.run(_x(1.0)), session.run(_x(7.0))
    for value, run in ((1.0, first), (7.0, second)):
        truth = {"x": np.float32(value)}
        for index, (inputs, outputs) in enumerate(steps):
            total = truth[inputs[0]] if index in handing else sum(truth[name] for name in inputs) + np.float32(1)
            truth |= dict.fromkeys(outputs, np.float32(total))
        for name in keep:
            np.testing.assert_array_equal(run.outputs[name], np.full((1, 4), truth[name]))


def test_what_a_caller_holds_is_no_view_of_what_the_next_request_writes() -> None:
    steps = [(("x",), ("a",)), (("a",), ("b",)), (("b",), ("y",))]
    stages = _stages(steps, handing=(1, 2))
    with _session(stages, ["y"]) as session:
        given_ = _x(1.0)
        first = session.run(given_, ["a", "b"])
        session.run(_x(7.0), ["a", "b"])
    for found in (first.outputs["y"], first.taps["a"], first.taps["b"]):
        np.testing.assert_array_equal(found, np.full((1, 4), 2))
    with _session(_stages([(("x",), ("y",))], handing=(0,)), ["y"]) as session:
        assert not np.may_share_memory(session.run(given_).outputs["y"], given_["x"])
