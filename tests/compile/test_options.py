"""Options reach the backends that obey them, and no other; what nobody obeys is refused."""

from __future__ import annotations

import pytest

from dovetail.backend.protocols import CompileOptions, Fidelity, InferencePrecision
from dovetail.compile.model import CompileRequest, compile_model
from dovetail.errors import CompileError
from dovetail.ir.precision import Precision
from dovetail.partition.partitioned import PartitionedGraph
from dovetail.partition.schedule import partition
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan
from dovetail.quantize.quantizer import quantize
from dovetail.quantize.ranges import Ranges
from dovetail.testing.topologies import chain


def _cut(*places: str) -> PartitionedGraph:
    """Return a chain whose operators go to these targets in turn, in float."""
    graph = chain().graph
    overrides = {
        node.name: Override(Placement(places[index % len(places)], Precision.FP32), "")
        for index, node in enumerate(graph.nodes)
    }
    plan = Plan(graph.digest, Placement(places[0], Precision.FP32), overrides)
    return partition(quantize(graph, plan, Ranges(graph.digest, "", 0, {})))


def test_an_option_that_no_backend_obeys_is_refused_with_those_that_are() -> None:
    request = CompileRequest(CompileOptions(inference=InferencePrecision.F16))
    with pytest.raises(CompileError, match="option 'inference': none of the targets 'cpu', 'null' obeys it") as caught:
        compile_model(_cut("cpu", "null"), request)
    assert "threads" in str(caught.value)


def test_an_option_of_one_target_must_be_obeyed_there() -> None:
    request = CompileRequest(per_target={"cpu": CompileOptions(fidelity=Fidelity.FAST)})
    with pytest.raises(CompileError, match="option 'fidelity': target 'cpu' does not obey it"):
        compile_model(_cut("cpu", "vsi:v853"), request)


def test_a_common_option_goes_only_to_the_backend_that_obeys_it() -> None:
    cut = _cut("cpu", "vsi:v853")
    backends = {"vsi:v853": "npusim"}
    exact = compile_model(cut, CompileRequest(CompileOptions(threads=1), backends))
    fast = compile_model(cut, CompileRequest(CompileOptions(fidelity=Fidelity.FAST, threads=1), backends))
    for one, other in zip(exact.partitions, fast.partitions, strict=True):
        assert (one.blob == other.blob) is (one.target == "cpu")
