"""A bisection hands over candidates in every text format, and the toolchain that reads them leads to the culprits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.errors import FormatError
from dovetail.formats import ReadRequest, WriteRequest, find_format, format_names
from dovetail.formats.demands import WordFormat, demands_of
from dovetail.ir import Graph
from dovetail.plan import Plan, parse_placement
from dovetail.search.bisect import BisectRequest, format_writer, make_setup, register_writer, start_bisection
from dovetail.search.trial import Status

from .acuity.make_network import make_network
from .conftest import make_graph
from .paddle.make_log import make_log

CULPRITS = frozenset({"head/conv", "join"})

LISTINGS: dict[str, Callable[[Graph], bytes]] = {
    "acuity-quantize": lambda graph: json.dumps(make_network(graph)).encode(),
    "paddle-mixed": lambda graph: make_log(graph).encode(),
    "paddle-subgraph": lambda graph: make_log(graph).encode(),
}
RAISED = {
    "acuity-quantize": ("vsi:v853@i8pc", "vsi:v853@i16"),
    "paddle-mixed": ("vsi:a311d@u8", "vsi:a311d@fp32"),
    "paddle-subgraph": ("vsi:a311d@u8", "cpu@fp32"),
    "rknn": ("vsi:v853@i8pc", "vsi:v853@fp16"),
    "tpu-mlir": ("vsi:v853@i8pc", "vsi:v853@fp32"),
}
"""From where to where a format can say that a unit goes; others say the CPU in float."""

NO_TEXT = {"onnx-grid", "onnx-qdq", "onnxruntime-layers"}


@pytest.mark.parametrize("name", sorted(set(format_names()) - NO_TEXT))
def test_candidates_in_every_text_format_lead_to_the_culprits(name: str, tmp_path: Path) -> None:
    graph = make_graph().evolve(origins={"head/conv:0": "head_conv"})
    form = find_format(name)
    low, high = map(parse_placement, RAISED.get(name, ("vsi:v853@i8pc", "cpu@fp32")))
    listing = LISTINGS[name](graph) if form.needs else None
    # A name of its own: writers are known to the whole process.
    register_writer(f"test {name}", format_writer(form, graph, listing))
    demands = None
    if isinstance(form, WordFormat):
        demands = demands_of(form, WriteRequest(Plan(graph.digest, low), graph, listing), low, (high,))
    request = BisectRequest(str(tmp_path / "candidate"), f"test {name}", low, (high,), demands=demands)
    found = start_bisection(tmp_path / "state", make_setup(graph, request))
    while found.finding is None:
        found.write_candidate()
        # The toolchain knows nothing but the file.
        content = (tmp_path / "candidate").read_bytes()
        plan = form.read(content, ReadRequest(graph, low, high, listing=listing))
        raised = {node.name for node in graph.nodes if plan.placement(node.name) == high}
        found.record(Status.PASS if raised >= CULPRITS else Status.FAIL)
    # Nodes that a format knows by one name cannot be told apart by it.
    units = {*found.finding.culprits, *found.finding.unresolved}
    assert {node for unit in units for node in found.setup.members[unit]} >= CULPRITS
    assert all(CULPRITS & set(found.setup.members[unit]) for unit in found.finding.culprits)
    if name not in LISTINGS:
        assert not found.finding.unresolved


def test_what_is_no_text_says_so() -> None:
    graph = make_graph()
    low, high = parse_placement("vsi:v853@i8pc"), parse_placement("cpu@fp32")
    write = format_writer(find_format("onnx-qdq"), graph)
    from dovetail.search.bisect import BisectCandidate
    from dovetail.search.space import make_space

    plan = make_space(graph, low, (high,)).base
    with pytest.raises(FormatError, match="ranges"):
        write(BisectCandidate((), (), (), (), plan))
