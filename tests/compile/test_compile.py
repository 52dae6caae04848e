"""Compiling: who compiles what, and what is said when nobody can."""

from __future__ import annotations

import pytest

from dovetail.compile import CompileRequest, choose_backend, compile_model, vendor_files
from dovetail.errors import CompileError, DeviceNotFound, DovetailError
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.partition import PartitionedGraph, partition
from dovetail.plan import Override, Placement, Plan
from dovetail.quantize import Ranges, quantize
from dovetail.testing.networks import Network


def _cut(*places: str) -> tuple[Graph, PartitionedGraph]:
    net = Network()
    made = net.input("x", 1, 4)
    for index in range(len(places)):
        made = net.op("Relu" if index % 2 else "Sigmoid", made)
    graph = net.graph(made)
    overrides = {f"n{index}": Override(Placement(name, Precision.FP32), "") for index, name in enumerate(places)}
    plan = Plan(graph.digest, Placement("cpu", Precision.FP32), overrides)
    return graph, partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))


def test_every_partition_goes_to_the_backend_of_its_target() -> None:
    graph, cut = _cut("cpu", "vsi:v853", "reference", "null")
    bundle = compile_model(cut)
    assert [part.backend for part in bundle.partitions] == ["cpu", "npusim", "reference", "null"]
    assert all(part.backend_version for part in bundle.partitions)
    assert bundle.inputs == {"x": graph.types["x"]}
    assert bundle.outputs == {"t3": graph.types["t3"]}
    assert set(bundle.tensors) == {"x", "t0", "t1", "t2", "t3"}
    bundle.check()


def test_a_backend_can_be_chosen_for_a_target() -> None:
    assert choose_backend("vsi:v853", {}).name == "npusim"
    assert choose_backend("vsi:v853", {"vsi:v853": "npusim", "cpu": "null"}).name == "npusim"


@pytest.mark.parametrize(("chosen", "says"), [("cpu", "does not compile for target"), ("npusin", "is not installed")])
def test_a_backend_that_cannot_serve_the_target(chosen: str, says: str) -> None:
    _, cut = _cut("vsi:v853")
    with pytest.raises(DeviceNotFound, match=says) as caught:
        compile_model(cut, CompileRequest(backends={"vsi:v853": chosen}))
    assert "npusim" in str(caught.value)


def test_a_bundle_without_a_vendor_s_binary_says_what_it_runs_on() -> None:
    with pytest.raises(DovetailError, match=r"no partition holds a vendor's binary \(it runs on cpu, vsi:v853\)"):
        vendor_files(compile_model(_cut("cpu", "vsi:v853")[1]))


def test_an_unknown_target_names_the_nearest() -> None:
    _, cut = _cut("vsi:v583")
    with pytest.raises(DeviceNotFound, match="target 'vsi:v583' is unknown") as caught:
        compile_model(cut)
    assert "Did you mean 'vsi:v853'?" in str(caught.value)


def test_a_refusal_names_the_partition_and_the_node() -> None:
    net = Network()
    made = net.op("Relu", net.input("x", 1, 4))
    graph = net.graph(net.op("Einsum", made, equation="ij->ij"))
    places = {"n1": Override(Placement("vsi:v853", Precision.FP32), "")}
    plan = Plan(graph.digest, Placement("cpu", Precision.FP32), places)
    cut = partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))
    with pytest.raises(CompileError, match=r"partition 1 \(vsi:v853, backend npusim\): node 'n1' \(Einsum\)") as caught:
        compile_model(cut)
    assert caught.value.partition == 1
    assert "cpu" in str(caught.value.hint)
