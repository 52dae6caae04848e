"""Verify inside: taps are believed only where they leave the outputs as they are; else cuts name what deviates."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from unittest import mock

import needs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.backend.pieces import CompiledPieces
from dovetail.backend.protocols import (
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    ExecutableAbilities,
    Signature,
)
from dovetail.backend.registry import backend
from dovetail.backend.target import Target
from dovetail.backends.verisilicon.emulator.kernel import Kernel, Values
from dovetail.backends.verisilicon.emulator.operators import OPERATORS
from dovetail.backends.verisilicon.program import own_copies
from dovetail.backends.verisilicon.views import OperatorView
from dovetail.compare import Judged, Steps, Taps, Verification, VerifyRequest, random_samples, verify
from dovetail.compare.cutting import Parts, find_cuts
from dovetail.compare.sides import Arrays, Sides
from dovetail.errors import CompileError
from dovetail.ir import AnyArray, DType, Graph, Node, Quantization, TensorType
from dovetail.partition import Partition
from dovetail.report import verification_document, verification_page

TARGET = "vsi:a311d"
TRUE = dict(OPERATORS)


def network() -> Graph:
    """Return a u8 network: convolution with ReLU and pooling, sigmoid, tanh, product, concatenation."""
    steps = {"x": 0.05, "c": 0.08, "r": 0.08, "p": 0.08, "s": 1 / 256, "t": 1 / 128, "m": 0.01, "y": 0.02}
    types = {
        name: TensorType(DType.U8, (1, 4, 6, 6), Quantization((float(np.float32(step)),), (0 if name == "s" else 100,)))
        for name, step in steps.items()
    }
    for name in ("p", "s", "t", "m", "y"):
        types[name] = replace(types[name], shape=(1, 8 if name == "y" else 4, 3, 3))
    types["w"] = TensorType(DType.U8, (4, 4, 3, 3), Quantization((float(np.float32(0.02)),), (128,)))
    weight = np.random.default_rng(4).integers(0, 256, (4, 4, 3, 3)).astype(np.uint8)
    nodes = (
        Node("conv", "Conv", ("x", "w"), ("c",), {"pads": (1, 1, 1, 1)}),
        Node("relu", "Relu", ("c",), ("r",)),
        Node("pool", "MaxPool", ("r",), ("p",), {"kernel_shape": (2, 2), "strides": (2, 2)}),
        Node("sigmoid", "Sigmoid", ("p",), ("s",)),
        Node("tanh", "Tanh", ("p",), ("t",)),
        Node("product", "Mul", ("s", "t"), ("m",)),
        Node("join", "Concat", ("m", "t"), ("y",), {"axis": 1}),
    )
    return Graph("network", nodes, ("x",), ("y",), types, {"w": weight})


@dataclass
class Twin:
    """A backend beside itself: what it loads has the true operators, and taps do what is planted."""

    inner: Backend
    taps: str = "honest"

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def version(self) -> str:
        return self.inner.version

    def targets(self) -> Sequence[Target]:
        return self.inner.targets()

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        if options.taps and self.taps == "refused":
            raise CompileError("no room for taps.")
        blob = self.inner.compile(graph, target, options)
        # Parts that are cut off end before the last output.
        odd = options.taps and self.taps in ("others", "garbage") and "y" in graph.outputs
        return Blob("tapped" if odd else blob.format, blob.payload)

    def devices(self) -> Sequence[Device]:
        return [TwinDevice(device, "y" if self.taps == "garbage" else "") for device in self.inner.devices()]

    def abilities(self) -> BackendAbilities:
        return self.inner.abilities()


@dataclass
class TwinDevice:
    inner: Device
    right: str

    @property
    def name(self) -> str:
        return self.inner.name

    def accepts(self, target: str) -> bool:
        return self.inner.accepts(target)

    def load(self, blob: Blob, signature: Signature) -> Executable:
        formats = {"npusim": "npusim-exact", "vsi-simulator": "vsi-graph"}
        found = Blob(formats[self.inner.name], blob.payload) if blob.format == "tapped" else blob
        with mock.patch.dict(OPERATORS, TRUE):
            loaded = self.inner.load(found, signature)
        return Others(loaded, self.right) if blob.format == "tapped" else loaded


@dataclass
class Others:
    """An executable that gives something else in every output but one."""

    inner: Executable
    right: str

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        return {name: value ^ (name != self.right) for name, value in self.inner.run(inputs, taps).items()}

    def close(self) -> None:
        self.inner.close()

    def abilities(self) -> ExecutableAbilities:
        return self.inner.abilities()


def upside_down(item: OperatorView) -> Kernel:
    """Return the kernel of a sigmoid upside down."""
    kernel = TRUE["sigmoid"](item)

    def run(values: Values) -> AnyArray:
        right = kernel(values)
        return np.asarray(255 - right).astype(right.dtype)

    return run


def wrong_inside(item: OperatorView) -> Kernel:
    """Return the same, but the true one where its result comes out of the program, as itself or as a copy."""
    shown = {*item.whole.edges, *own_copies(item.whole.program).values()}
    return TRUE["sigmoid"](item) if item.operator.outputs[0] in shown else upside_down(item)


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verification]:
    """Verify the network against a twin of a backend, with a fault in our sigmoid and a twin whose taps are odd."""

    def planted(
        taps: str = "honest",
        wrong: Callable[[OperatorView], Kernel] | None = None,
        against: str = "npusim",
        most_cuts: int = 16,
    ) -> Verification:
        twin, graph = Twin(backend(against), taps), network()
        module = importlib.import_module("dovetail.compare.verify")
        monkeypatch.setattr(module, "backend", lambda name: twin if name == "twin" else backend(name))
        if wrong is not None:
            monkeypatch.setitem(OPERATORS, "sigmoid", wrong)
        part = Partition(0, TARGET, graph)
        return verify((part,), graph.outputs, random_samples(graph, 2, 0), VerifyRequest("twin", most_cuts=most_cuts))

    return planted


PIECES = ["conv", "sigmoid", "tanh", "product", "join"]


def assert_named_by_taps(found: Verification) -> None:
    """Assert that taps name the sigmoid, and a cut confirms it."""
    assert not found.equal
    assert [item.node for item in found.operators] == PIECES
    assert found.operators[0].nodes == ("conv", "relu", "pool")
    assert [item.node for item in found.operators if item.steps.differing] == ["sigmoid"]
    assert {item.judged for item in found.operators} == {Judged.TAP}
    assert found.inside[0].taps is Taps.BELIEVED
    assert found.inside[0].cuts == 1


def assert_named_by_cuts(found: Verification) -> None:
    """Assert that cuts name the sigmoid, and that nothing is said of what follows it."""
    first = found.first_deviation
    assert first is not None
    assert (first.node, first.op, first.judged) == ("sigmoid", "Sigmoid", Judged.CUT)
    assert [item.node for item in found.operators] == ["conv", "sigmoid"]
    look = found.inside[0]
    assert look.taps is Taps.DIFFER
    assert look.unjudged == ("tanh", "product", "join")
    assert 0 < look.cuts < len(PIECES)


def test_a_planted_fault_is_named_by_taps(plant: Callable[..., Verification]) -> None:
    assert_named_by_taps(plant(wrong=upside_down))


def test_a_planted_fault_is_named_by_cuts_where_taps_change_the_outputs(plant: Callable[..., Verification]) -> None:
    assert_named_by_cuts(plant("others", upside_down))


@pytest.mark.sdk
def test_a_planted_fault_is_named_beside_the_vendor_by_taps(plant: Callable[..., Verification]) -> None:
    needs.verisilicon()
    assert_named_by_taps(plant(wrong=upside_down, against="vsi"))


@pytest.mark.sdk
def test_a_planted_fault_is_named_beside_the_vendor_by_cuts(plant: Callable[..., Verification]) -> None:
    needs.verisilicon()
    assert_named_by_cuts(plant("others", upside_down, "vsi"))


def test_without_a_fault_cuts_judge_every_operator(plant: Callable[..., Verification]) -> None:
    found = plant("others")
    assert found.equal
    assert found.first_deviation is None
    assert [(item.node, item.judged) for item in found.operators] == [
        *((name, Judged.CUT) for name in PIECES[:-1]),
        ("join", Judged.DEPLOYED),
    ]
    assert found.inside[0].cuts == len(PIECES) - 1


def test_taps_that_explain_nothing_are_not_the_last_word(plant: Callable[..., Verification]) -> None:
    found = plant(wrong=wrong_inside)
    assert not found.equal
    assert found.inside[0].taps is Taps.SILENT
    # The cut behind the sigmoid makes its result an output, and so right: the product is the first that is not.
    first = found.first_deviation
    assert first is not None
    assert (first.node, first.judged) == ("product", Judged.CUT)


def test_what_cannot_be_told_apart_is_judged_together(plant: Callable[..., Verification]) -> None:
    known = Sides.pieces

    def shy(self: Sides, graph: Graph) -> CompiledPieces:
        pieces = known(self, graph)
        return CompiledPieces(pieces.nodes, lambda part: "s" not in part.outputs and pieces.keeps(part))

    with mock.patch.object(Sides, "pieces", shy):
        found = plant(wrong=upside_down)
    assert [item.node for item in found.operators] == ["conv", "tanh", "product", "join"]
    first = found.first_deviation
    assert first is not None
    assert first.nodes == ("sigmoid", "product")
    assert found.inside[0].unjudged == ()
    assert "product and 1 before it" in str(verification_page(found, "page"))


def test_of_what_taps_name_only_the_first_is_confirmed(
    plant: Callable[..., Verification], monkeypatch: pytest.MonkeyPatch
) -> None:
    true = OPERATORS["tanh"]

    def shifted(item: OperatorView) -> Kernel:
        kernel = true(item)
        return lambda values: np.asarray(kernel(values) ^ 64)

    monkeypatch.setitem(OPERATORS, "tanh", shifted)
    found = plant(wrong=upside_down)
    assert [item.node for item in found.operators] == ["conv", "sigmoid", "product", "join"]
    assert [item.node for item in found.operators if item.steps.differing] == ["sigmoid"]
    assert found.inside[0].unjudged == ("tanh",)


def test_taps_that_name_what_a_cut_denies_are_not_believed(plant: Callable[..., Verification]) -> None:
    found = plant("garbage")
    assert found.equal
    assert found.inside[0].taps is Taps.DENIED
    assert found.first_deviation is None
    assert [(item.node, item.judged) for item in found.operators] == [
        *((name, Judged.CUT) for name in PIECES[:-1]),
        ("join", Judged.DEPLOYED),
    ]


def test_what_was_not_looked_at_is_said(plant: Callable[..., Verification]) -> None:
    found = plant("refused", most_cuts=1)
    (look,) = found.inside
    assert (look.taps, look.reason, look.cuts) == (Taps.REFUSED, "no room for taps.", 1)
    assert set(look.unjudged) | {item.node for item in found.operators} == set(PIECES)
    assert look.unjudged
    page = str(verification_page(found, "page"))
    assert "taps are refused by the other backend (no room for taps.); compiled up to 1 cuts" in page
    assert f"; nothing was read of {len(look.unjudged)} of 5 operators" in page
    told = verification_document(found)["inside"]
    assert isinstance(told, list)
    assert told[0]["taps"] == "refused"
    assert told[0]["unjudged"] == list(look.unjudged)


def test_samples_that_differ_are_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network()
    dull, telling = ({"x": np.full((1, 4, 6, 6), value, np.uint8)} for value in (100, 200))

    def wrong_elsewhere(item: OperatorView) -> Kernel:
        right, wrong = TRUE["sigmoid"](item), upside_down(item)
        return lambda values: right(values) if int(np.max(values[0])) == level else wrong(values)  # type: ignore[arg-type]

    ours = backend("npusim")
    with mock.patch.dict(OPERATORS, TRUE):
        loaded = ours.devices()[0].load(ours.compile(graph, ours.targets()[0], CompileOptions()), Signature.of(graph))
        level = int(loaded.run(dull, ["p"])["p"].max())
        assert level != int(loaded.run(telling, ["p"])["p"].max())
    monkeypatch.setitem(OPERATORS, "sigmoid", wrong_elsewhere)
    module = importlib.import_module("dovetail.compare.verify")
    monkeypatch.setattr(module, "backend", lambda name: Twin(ours) if name == "twin" else ours)
    found = verify((Partition(0, TARGET, graph),), graph.outputs, [dull, telling], VerifyRequest("twin"))
    assert found.first_deviation is not None
    assert found.first_deviation.node == "sigmoid"


@dataclass
class Pretended:
    """Sides that compare nothing: parts of more than so many nodes differ."""

    wrong: int

    def compare(self, graph: Graph, fed: Sequence[Arrays], *, as_graph: bool) -> Mapping[str, Steps]:
        bad = len(graph.nodes) > self.wrong
        return {name: Steps((0, 1, *(0,) * 7) if bad else (1, *(0,) * 8), int(bad)) for name in graph.outputs}


def line(length: int) -> Graph:
    """Return a chain of operators."""
    kind = TensorType(DType.F32, (2,))
    names = [f"t{index}" for index in range(length + 1)]
    nodes = [Node(f"n{at}", "Relu", (names[at],), (names[at + 1],)) for at in range(length)]
    return Graph("line", tuple(nodes), (names[0],), (names[-1],), dict.fromkeys(names, kind))


@given(st.integers(1, 40), st.data())
def test_the_first_that_differs_lies_where_cuts_say(length: int, data: st.DataObject) -> None:
    graph = line(length)
    wrong = data.draw(st.integers(0, length - 1))
    whole = data.draw(st.sets(st.integers(1, length), max_size=length))
    pieces = CompiledPieces(tuple((node.name,) for node in graph.nodes), lambda part: len(part.nodes) not in whole)
    parts = Parts(graph, pieces, Pretended(wrong), (), 100)  # type: ignore[arg-type]
    for end in (Steps((0, 1, *(0,) * 7), 1), Steps((1, *(0,) * 8))):
        cuts = find_cuts(replace_known(parts), {graph.outputs[0]: end})
        able = [count for count in range(1, length) if count not in whole]
        low = max((count for count in able if count <= wrong), default=0)
        high = min((count for count in able if count > wrong), default=length)
        if high == length and not end.differing:
            assert cuts.first is None
            assert set(cuts.equal) == set(able)
        else:
            assert cuts.first == (low, high)
        assert cuts.tried <= len(able)


def replace_known(parts: Parts) -> Parts:
    """Return the same parts, none of which has been compiled."""
    return Parts(parts.graph, parts.pieces, parts.sides, parts.fed, parts.most)


def test_a_backend_that_names_no_pieces_is_asked_operator_by_operator() -> None:
    graph, npusim = network(), backend("npusim")
    quiet = mock.Mock(wraps=npusim)
    quiet.abilities.return_value = replace(npusim.abilities(), pieces=None)
    found = Sides(npusim, quiet, TARGET).pieces(graph)
    assert found.nodes == (("conv", "relu"), ("pool",), ("sigmoid",), ("tanh",), ("product",), ("join",))
    assert found.keeps(graph)
