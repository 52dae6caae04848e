"""What is made of a performance model's records, against sums by hand; a plug-in of the tests holds the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dovetail.backend.costs import Figure, Quality
from dovetail.backend.modelled import BoardSettings, OperatorCycles
from dovetail.backend.target import Engine
from dovetail.cost import CostEntry, ModelledPartition, ModelRequest, OperatorRow, model_plan, model_tables
from dovetail.cost.stated import stated_ranges
from dovetail.errors import CostError, QuantizeError
from dovetail.ir import DType, Graph, TensorType
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Plan, parse_placement
from dovetail.quantize import Ranges
from dovetail.quantize.ranges import Range
from dovetail.testing.networks import Network

U8, I16, CPU = (parse_placement(text) for text in ("clock:one@u8", "clock:one@i16", "cpu@fp32"))
PIXELS = 8 * 8
CYCLE_NS = 2.0
"""At 500 MHz, which the plug-in assumes."""
TEXT = (
    "VeriSilicon's performance model (7.1, NN_EXT_SHOW_PERF): cycles at 500 MHz, 3.5 bytes a cycle to DDR; "
    "shaders are stated at 1 element and 8 multiply-accumulates a cycle at 8 bits, half of it at 16"
)


@pytest.fixture(scope="module", autouse=True)
def _installed(install: Callable[[str], None]) -> None:
    install("clockback")


@pytest.fixture
def records() -> Iterator[list[OperatorCycles]]:
    """Return the list of what the model knows; it is empty again afterwards."""
    import clockback

    yield clockback.RECORDS
    clockback.RECORDS.clear()
    clockback.MISSING.clear()


def _record(node: str, cycles: int, engine: Engine = Engine.NN, operation: str = "convolution") -> OperatorCycles:
    return OperatorCycles(node, operation, engine, cycles, 3, 2, 1, f"in-{cycles}", f"out-{cycles}", f"kernel-{cycles}")


def _rows(graph: Graph, plan: Plan | None = None) -> dict[str, OperatorRow]:
    (part,) = model_plan(graph, plan or Plan(graph.digest, U8))
    return {row.node: row for row in part.rows}


def _conv(*after: str) -> Graph:
    """Return a 3x3 convolution of 2 into 4 channels over 64 pixels and what follows it."""
    net = Network()
    made = net.conv(net.input("x", 1, 2, 8, 8), 4, 3)
    for op in after:
        made = net.conv(made, 4, 3) if op == "Conv" else net.op(op, made)
    return net.graph(made)


def test_records_of_a_node_are_added_and_the_longest_says_where_it_ran(records: list[OperatorCycles]) -> None:
    records += [_record("n0", 300, Engine.TP, "tiling"), _record("n0", 800), _record("n1", 1)]
    assert _rows(_conv("Relu"))["n0"] == OperatorRow(
        node="n0",
        op="Conv",
        precision=Precision.U8,
        engine=Engine.NN,
        cycles=1100,
        stated=False,
        latency_ns=1100 * CYCLE_NS,
        read_bytes=6,
        write_bytes=4,
        buffers=("in-800", "out-800", "kernel-800"),
        tiles=2,
    )


def test_a_partition_is_the_sum_of_its_rows(records: list[OperatorCycles]) -> None:
    records += [_record("n0", 800), _record("n1", 50)]
    graph = _conv("Relu")
    (part,) = model_plan(graph, Plan(graph.digest, U8))
    assert (part.target, part.clock_mhz, part.source) == ("clock:one", 500.0, TEXT)
    assert part.latency_ns == 850 * CYCLE_NS


def test_a_node_without_a_record_ran_with_another(records: list[OperatorCycles]) -> None:
    records.append(_record("n0", 800))
    row = _rows(_conv("Relu"))["n1"]
    assert (row.cycles, row.latency_ns, row.engine, row.stated) == (0, 0.0, Engine.NN, False)
    assert (row.buffers, row.tiles, row.read_bytes) == (("", "", ""), 0, 0)


@pytest.mark.parametrize(("recorded", "cycles", "stated"), [(10, 256, True), (256, 256, False), (999, 999, False)])
def test_shaders_take_at_least_what_we_state(
    records: list[OperatorCycles], recorded: int, cycles: int, stated: bool
) -> None:
    records += [_record("n0", 800), _record("n1", recorded, Engine.SH, "sigmoid")]
    row = _rows(_conv("Sigmoid"))["n1"]
    assert (row.cycles, row.stated, row.engine, row.latency_ns) == (cycles, stated, Engine.SH, cycles * CYCLE_NS)


def test_a_node_that_ran_on_another_engine_is_not_stated(records: list[OperatorCycles]) -> None:
    records += [_record("n0", 800), _record("n1", 10, Engine.SH), _record("n1", 10, Engine.TP)]
    row = _rows(_conv("Sigmoid"))["n1"]
    assert (row.cycles, row.stated) == (20, False)


def test_sixteen_bits_are_stated_at_half_the_rate(records: list[OperatorCycles]) -> None:
    graph = _conv("Sigmoid")
    assert _rows(graph, Plan(graph.digest, I16))["n1"].cycles == 512


def test_a_shader_operator_without_a_record_is_one_of_those_that_the_model_misses(
    records: list[OperatorCycles],
) -> None:
    import clockback

    records.append(_record("n0", 800))
    clockback.MISSING += ["one", "two", "three"]
    graph = _conv("Sigmoid", "Sigmoid")
    (part,) = model_plan(graph, Plan(graph.digest, U8))
    rows = {row.node: row for row in part.rows}
    assert (rows["n1"].cycles, rows["n2"].cycles) == (256, 256)
    assert part.source == f"{TEXT}; 1 further operations of the vendor's are in no record"
    del clockback.MISSING[1:]
    (part,) = model_plan(graph, Plan(graph.digest, U8))
    assert part.source == TEXT


def test_of_a_part_without_figures_nothing_is_stated(records: list[OperatorCycles]) -> None:
    records += [_record("n0", 800), _record("n1", 10, Engine.SH, "sigmoid")]
    graph = _conv("Sigmoid", "Sigmoid")
    rows = _rows(graph, Plan(graph.digest, parse_placement("clock:bare@u8")))
    assert [(rows[name].cycles, rows[name].stated) for name in ("n1", "n2")] == [(10, False), (0, False)]


def test_a_convolution_that_the_shaders_ran_is_stated(records: list[OperatorCycles]) -> None:
    records.append(_record("n0", 10, Engine.SH))
    macs = 4 * PIXELS * 2 * 9
    row = _rows(_conv())["n0"]
    assert (row.cycles, row.stated, row.engine) == (macs // 8, True, Engine.SH)


def test_a_convolution_without_any_record_is_stated(records: list[OperatorCycles]) -> None:
    assert _rows(_conv())["n0"].cycles == 4 * PIXELS * 2 * 9 // 8


@pytest.mark.parametrize("between", [0, 1, 2])
def test_a_convolution_before_one_on_the_array_shares_its_record(records: list[OperatorCycles], between: int) -> None:
    graph = _conv(*["Relu"] * between, "Conv")
    records.append(_record(f"n{between + 1}", 800))
    rows = _rows(graph)
    # Bytes: x 2 x 64, the result 4 x 64, weights 72 and 144, biases 4 x 4 each.
    first, second = 2 * 64 + 72 + 16 + 4 * 64, 144 + 16
    assert rows["n0"].cycles == round(800 * first / (first + second))
    assert sum(row.cycles for row in rows.values()) == 800


@pytest.mark.parametrize(
    ("after", "record"),
    [
        (("Relu", "Relu", "Relu", "Conv"), _record("n4", 800)),  # too far
        (("Conv",), _record("n1", 800, Engine.SH)),  # the shaders ran it
        (("Relu",), _record("n1", 800, Engine.NN, "pooling")),  # nothing multiplies there
    ],
)
def test_a_convolution_before_anything_else_is_not(
    records: list[OperatorCycles], after: tuple[str, ...], record: OperatorCycles
) -> None:
    records.append(record)
    assert _rows(_conv(*after))["n0"].cycles == 4 * PIXELS * 2 * 9 // 8


def test_a_convolution_that_two_read_is_part_of_neither(records: list[OperatorCycles]) -> None:
    net = Network()
    made = net.conv(net.input("x", 1, 2, 8, 8), 4, 3)
    graph = net.graph(net.conv(made, 4), net.conv(made, 4))
    records += [_record("n1", 800), _record("n2", 800)]
    assert _rows(graph)["n0"].cycles == 4 * PIXELS * 2 * 9 // 8


def test_conversions_have_no_precision_and_are_left_out_of_tables(records: list[OperatorCycles]) -> None:
    net = Network()
    made = net.op("Mul", net.conv(net.input("x", 1, 2, 8, 8), 4, 3), net.uniform(4, 1, 1))
    graph = net.graph(net.conv(made, 4))
    plan = Plan(graph.digest, U8, {"n1": Override(I16, "test")})
    (part,) = model_plan(graph, plan)
    conversions = [row for row in part.rows if row.op == "Requantize"]
    assert [row.precision for row in conversions] == [None, None]
    records += [_record("n0", 800), _record("n2", 70), *(_record(row.node, 5) for row in conversions)]
    (part,) = model_plan(graph, plan)
    assert part.latency_ns == (800 + 70 + 5 + 5 + 512) * CYCLE_NS
    (table,) = model_tables([part])
    assert set(table.entries) == {
        CostEntry("n0", Precision.U8, 800 * CYCLE_NS),
        CostEntry("n1", Precision.I16, 512 * CYCLE_NS),
        CostEntry("n2", Precision.U8, 70 * CYCLE_NS),
    }


def test_parts_of_one_target_share_a_table_and_targets_do_not() -> None:
    row = OperatorRow("a", "Conv", Precision.U8, Engine.NN, 1, False, 10.0, 0, 0, ("", "", ""), 1)
    other = OperatorRow("b", "Conv", Precision.I16, Engine.NN, 1, False, 5.0, 0, 0, ("", "", ""), 1)
    tables = model_tables(
        [
            ModelledPartition("one", "first", 1.0, (row,)),
            ModelledPartition("two", "second", 1.0, (other,)),
            ModelledPartition("one", "third", 1.0, (other,)),
        ]
    )
    one = (CostEntry("a", Precision.U8, 10.0), CostEntry("b", Precision.I16, 5.0))
    assert [(table.target, table.source, table.quality, table.entries) for table in tables] == [
        ("one", "third", Quality.MODELLED, one),
        ("two", "second", Quality.MODELLED, (CostEntry("b", Precision.I16, 5.0),)),
    ]
    graph = _conv()
    assert tables[0].latency(graph, graph.nodes, "one", Precision.U8) is None


def test_a_board_sets_its_own_clock(records: list[OperatorCycles]) -> None:
    records.append(_record("n0", 800))
    graph = _conv()
    board = {"clock:one": BoardSettings(clock_mhz=250.0), "other": BoardSettings(clock_mhz=1.0)}
    (part,) = model_plan(graph, Plan(graph.digest, U8), ModelRequest(board))
    assert (part.clock_mhz, part.latency_ns) == (250.0, 800 * 4.0)


def test_partitions_that_nobody_models_are_left_out(records: list[OperatorCycles]) -> None:
    graph = _conv("Sigmoid", "Conv")
    parts = model_plan(graph, Plan(graph.digest, U8, {"n1": Override(CPU, "test")}))
    assert [[row.node for row in part.rows if row.precision] for part in parts] == [["n0"], ["n2"]]
    with pytest.raises(CostError, match="no vendor's performance model is here for cpu"):
        model_plan(graph, Plan(graph.digest, CPU))


def test_ranges_that_were_measured_are_taken() -> None:
    graph = _conv()
    with pytest.raises(QuantizeError, match="tensor 'x' needs a range"):
        model_plan(graph, Plan(graph.digest, U8), ModelRequest(ranges=Ranges(graph.digest, "minmax", 1, {})))


def test_stated_ranges_are_those_that_operators_imply() -> None:
    net = Network()
    x = net.input("x", 1, 4)
    net.types["i"] = TensorType(DType.I64, (4,))
    net.inputs.append("i")
    low = net.input("low", 1)
    outputs = {
        "sigmoid": net.op("Sigmoid", x),
        "softmax": net.op("Softmax", x),
        "hard": net.op("HardSigmoid", x),
        "relu": net.op("Relu", x),
        "add": net.op("Add", x, net.constant(np.float32(-1))),
        "clip": net.op("Clip", x, net.constant(np.float32(-1)), net.constant(np.float32(6))),
        "above": net.op("Clip", x, net.constant(np.array([-1], np.float32))),
        "below": net.op("Clip", x, "", net.constant(np.float32(6))),
        "wide": net.op("Clip", x, net.constant(np.float32(-100)), net.constant(np.float32(100))),
        "outside": net.op("Clip", x, net.constant(np.float32(8)), net.constant(np.float32(9))),
        "computed": net.op("Clip", x, low, net.constant(np.float32(2))),
    }
    graph = net.graph(*outputs.values())
    ranges = stated_ranges(graph)
    assert (ranges.graph_digest, ranges.method, ranges.samples) == (graph.digest, "stated", 0)
    assert "i" not in ranges.tensors
    found = {name: ranges.tensors[tensor] for name, tensor in outputs.items()}
    assert ranges.tensors["x"] == Range(-8.0, 8.0)
    assert found == {
        **dict.fromkeys(("sigmoid", "softmax", "hard"), Range(0.0, 1.0)),
        "relu": Range(0.0, 8.0),
        "add": Range(-8.0, 8.0),
        "clip": Range(-1.0, 6.0),
        "above": Range(-1.0, 8.0),
        "below": Range(-8.0, 6.0),
        "wide": Range(-8.0, 8.0),
        "outside": Range(-8.0, 8.0),
        "computed": Range(-8.0, 2.0),
    }
    assert not any(math.isinf(item.high - item.low) for item in ranges.tensors.values())


def test_what_a_backend_offers_is_asked_before_the_roofline() -> None:
    from dovetail.backend.registry import find_target
    from dovetail.cost import CostTable, make_cost_model
    from dovetail.plan import find_units

    net = Network()
    graph = net.graph(net.op("Softmax", net.op("Sigmoid", net.input("x", 1, 100))))
    units = find_units(graph)
    table = CostTable("clock:one", "stop-watch", Quality.MEASURED, (CostEntry("n1", Precision.U8, 5.0),))
    first, second = units.items
    model = make_cost_model(graph, units, [find_target("clock:one")])
    assert model.unit_figure(second, U8) == Figure(77.0, Quality.MODELLED, "the clock")
    assert model.unit_figure(first, U8).latency_ns == 100.0
    measured = make_cost_model(graph, units, [find_target("clock:one")], [table])
    assert measured.unit_figure(second, U8) == Figure(5.0, Quality.MEASURED, "stop-watch")
