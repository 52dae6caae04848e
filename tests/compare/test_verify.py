"""Verify: what another backend gives, counted in steps, and the operator named where it arises."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.cli.main import main
from dovetail.compare import VerifyRequest, random_samples, verify
from dovetail.compare.steps import compare_steps
from dovetail.errors import DeviceNotFound
from dovetail.ir import DType, Graph, Node, Quantization, TensorType, save_graph
from dovetail.partition import Partition

TARGET = next(item.name for item in VSI_PROFILES if item.name == "vsi:v853")


def chain() -> Graph:
    """Return a u8 network: convolution with ReLU, sigmoid, concatenation."""
    steps = {"x": 0.05, "c": 0.08, "r": 0.08, "s": 1 / 256, "y": 0.04}
    quant = {name: Quantization((float(np.float32(scale)),), (100,)) for name, scale in steps.items()}
    quant["s"] = Quantization(quant["s"].scale, (0,))
    types = {name: TensorType(DType.U8, (1, 4, 6, 6), item) for name, item in quant.items()}
    types["y"] = TensorType(DType.U8, (1, 8, 6, 6), quant["y"])
    types["w"] = TensorType(DType.U8, (4, 4, 3, 3), Quantization((float(np.float32(0.02)),), (128,)))
    random = np.random.default_rng(4)
    nodes = (
        Node("conv", "Conv", ("x", "w"), ("c",), {"pads": (1, 1, 1, 1)}),
        Node("relu", "Relu", ("c",), ("r",)),
        Node("sigmoid", "Sigmoid", ("r",), ("s",)),
        Node("join", "Concat", ("r", "s"), ("y",), {"axis": 1}),
    )
    return Graph("chain", nodes, ("x",), ("y",), types, {"w": random.integers(0, 256, (4, 4, 3, 3)).astype(np.uint8)})


@given(arrays(np.uint8, (3, 7)), arrays(np.uint8, (3, 7)))
def test_every_element_is_counted_by_its_difference(one: np.ndarray, other: np.ndarray) -> None:
    steps = compare_steps(one, other)
    apart = np.abs(one.astype(int) - other.astype(int))
    assert steps.elements == one.size
    assert steps.differing == np.count_nonzero(apart)
    assert steps.largest == apart.max()
    assert [steps.counts[size] for size in range(8)] == [np.count_nonzero(apart == size) for size in range(8)]


def test_other_shapes_and_nan_differ() -> None:
    assert compare_steps(np.zeros(3, np.uint8), np.zeros(4, np.uint8)).differing == 3
    floats = np.array([1.0, np.nan, 2.0], np.float32)
    assert compare_steps(floats, floats).differing == 0
    assert compare_steps(floats, np.array([1.0, 0.0, 2.0], np.float32)).counts[8] == 1
    assert compare_steps(floats, floats * np.float32(1 + 2**-23)).counts[1] == 1


@given(st.integers(0, 5))
def test_random_samples_repeat_and_fill_their_types(seed: int) -> None:
    graph = chain()
    first, again = (random_samples(graph, 2, seed) for _ in range(2))
    assert all(np.array_equal(one["x"], two["x"]) for one, two in zip(first, again, strict=True))
    assert first[0]["x"].dtype == np.uint8
    assert not np.array_equal(first[0]["x"], first[1]["x"])


def test_the_reference_agrees_with_the_simulation() -> None:
    graph = chain()
    part = Partition(0, "reference", graph)
    with pytest.raises(DeviceNotFound, match="serves none of reference"):
        verify((part,), graph.outputs, random_samples(graph, 1, 0), VerifyRequest("npusim"))
    found = verify((Partition(0, TARGET, graph),), graph.outputs, random_samples(graph, 2, 0), VerifyRequest("npusim"))
    assert found.equal
    assert found.first_deviation is None
    assert [item.node for item in found.operators] == ["conv", "sigmoid", "join"]


@pytest.mark.sdk
def test_the_vendor_beside_us_with_the_operator_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs.verisilicon()
    path = tmp_path / "chain.dvg"
    save_graph(chain(), path)
    code = main(["verify", str(path), "--target", TARGET, "--against", "vsi", "--samples", "2", "--json"])
    answer = json.loads(capsys.readouterr().out)
    rows = {item["node"]: item for item in answer["operators"]}
    assert rows["conv"]["differing"] == 0
    assert sum(rows["join"]["steps"]) == 8 * 6 * 6
    assert answer["equal"] is (code == 0)
    deviating = [name for name in ("conv", "sigmoid", "join") if rows[name]["differing"]]
    assert answer["first_deviation"] == (deviating[0] if deviating else None)


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chain.dvg"
    save_graph(chain(), path)
    for options, words in (
        ((), "give --plan and --ranges, or --target"),
        (("--target", TARGET, "--samples", "0"), "are counts"),
        (("--target", TARGET, "--against", "nobody"), "backend 'nobody' is not installed"),
        (("--plan", "p.json"), "p.json: cannot be read"),
        (("--target", TARGET, "--against", "cpu"), "serves none of vsi:v853"),
    ):
        assert main(["verify", str(path), *options]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1


def test_another_place_runs_what_was_compiled_here() -> None:
    """A place that counts what is loaded there stands for a board: the same verdicts, and taps went there too."""
    from dovetail.bundle import Bundle
    from dovetail.runtime import LocalRuntime, Session

    class Counting(LocalRuntime):
        loaded = 0

        def load(self, bundle: Bundle) -> Session:
            self.loaded += 1
            return super().load(bundle)

    graph = chain()
    samples = random_samples(graph, 3, seed=1)
    parts = (Partition(0, TARGET, graph),)
    place = Counting()
    here = verify(parts, graph.outputs, samples, VerifyRequest("npusim"))
    there = verify(parts, graph.outputs, samples, VerifyRequest("npusim", place=place))
    assert there == here
    assert there.equal
    assert place.loaded >= 2
