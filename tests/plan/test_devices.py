"""Priority strings and affinities."""

from __future__ import annotations

import pytest

from dovetail.backend.protocols import CompileOptions, InferencePrecision
from dovetail.backend.registry import find_target
from dovetail.errors import PlanError
from dovetail.ir import Graph
from dovetail.ir.precision import Precision
from dovetail.plan import Recipe, make_plan, parse_placement
from dovetail.plan.devices import DeviceChoice, parse_devices, recipe_of, with_affinities
from dovetail.testing.networks import Network


def test_a_list_with_options() -> None:
    found = parse_devices(
        "vsi:a311d@i8pc, openvino:CPU(threads=2; inference=bf16;PERF_COUNT=YES, maybe) ,cpu(profiling=yes)"
    )
    assert found == (
        DeviceChoice("vsi:a311d", Precision.I8PC),
        DeviceChoice(
            "openvino:CPU",
            None,
            CompileOptions(threads=2, inference=InferencePrecision.BF16, properties=(("PERF_COUNT", "YES, maybe"),)),
        ),
        DeviceChoice("cpu", None, CompileOptions(profiling=True)),
    )


def test_the_vendors_own_names_are_handed_on() -> None:
    (found,) = parse_devices("openvino:GPU(Performance.Hint = a=b ;num_streams=4;PERF_COUNT=)")
    properties = (("Performance.Hint", "a=b"), ("num_streams", "4"), ("PERF_COUNT", ""))
    assert found.options == CompileOptions(properties=properties)


def test_options_come_on_top_of_those_for_all() -> None:
    base = CompileOptions(threads=3, properties=(("A", "1"),))
    plain, more = parse_devices("cpu, openvino:CPU(B=2;profiling=no;threads=0)", base)
    assert plain.options == base
    assert more.options == CompileOptions(threads=0, properties=(("A", "1"), ("B", "2")))


def test_a_device_may_stand_twice_with_the_same_options() -> None:
    first, _, last = parse_devices("cpu@i8(threads=1),vsi:v853,cpu@fp32(threads=1)")
    assert (first.target, last.target, first.options) == ("cpu", "cpu", last.options)
    assert (first.precision, last.precision) == (Precision.I8, Precision.FP32)


def test_without_a_precision_an_npu_has_its_usual_one() -> None:
    targets = {name: find_target(name) for name in ("cpu", "vsi:v853", "reference:tflite")}
    usual = {name: str(DeviceChoice(name).placement(targets)) for name in targets}
    assert usual == {
        "cpu": "cpu@fp32",
        "vsi:v853": "vsi:v853@i8pc",
        "reference:tflite": f"reference:tflite@{targets['reference:tflite'].precisions[0].value}",
    }
    assert str(DeviceChoice("vsi:v853", Precision.I16).placement(targets)) == "vsi:v853@i16"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the list of devices is empty"),
        (" , ", "the list of devices is empty"),
        ("cpu(threads=2", "a parenthesis is missing"),
        ("cpu)threads=2(", "a parenthesis is missing"),
        ("cpu(threads)", "'threads' is not NAME=VALUE"),
        ("cpu(threads=two)", "'threads=two' is no option"),
        ("cpu(speed=3)", "'speed=3' is no option"),
        ("cpu(speed=yes)", "'speed=yes' is no option"),
        ("cpu(speed=bf16)", "'speed=bf16' is no option"),
        ("cpu(profiling=maybe)", "'profiling=maybe' is no option"),
        ("cpu(=2)", "'=2' is not NAME=VALUE"),
        ("cpu((threads=2)", "a parenthesis is missing"),
        ("cpu@fp32@i8", "TARGET, TARGET@PRECISION"),
        ("cpu(threads=1),vsi:v853,cpu", "device 'cpu' has two sets of options"),
        ("cpu(speed=high)", "'speed=high' is no option"),
        ("cpu(inference=f8)", "'inference=f8' is no option"),
        ("cpu@fp31", "precision 'fp31' is unknown"),
        ("(threads=2)", "TARGET, TARGET@PRECISION"),
        ("cpu(threads=1),cpu(threads=2)", "two sets of options"),
    ],
)
def test_wrong_lists(text: str, says: str) -> None:
    with pytest.raises(PlanError, match=says) as caught:
        parse_devices(text)
    assert "\n" not in str(caught.value)


def _graph() -> Graph:
    net = Network()
    made = net.op("Relu", net.conv(net.input("x", 1, 4, 8, 8), 4))
    made = net.op("Softmax", made, axis=1)
    return net.graph(net.op("Asinh", net.conv(made, 4)))


def _places(devices: str, *affinities: str) -> dict[str, str]:
    graph = _graph()
    choices = parse_devices(devices)
    targets = {choice.target: find_target(choice.target) for choice in choices}
    plan = make_plan(graph, recipe_of(choices, affinities, targets), targets)
    return {node.op if node.op != "Conv" else node.name: str(plan.placement(node.name)) for node in graph.nodes}


def test_capability_decides_in_the_order_of_the_list() -> None:
    found = _places("vsi:a311d,cpu")
    assert found["n0"] == "vsi:a311d@i8pc"
    assert found["Asinh"] == "cpu@fp32"


def test_affinities_win_by_name_glob_and_operator_and_the_rest_is_automatic() -> None:
    found = _places("vsi:a311d,cpu", "n0=cpu", "op:Softmax=cpu")
    assert found == {
        "n0": "cpu@fp32",
        "Relu": "cpu@fp32",
        "Softmax": "cpu@fp32",
        "n3": "vsi:a311d@i8pc",
        "Asinh": "cpu@fp32",
    }
    assert _places("cpu,vsi:a311d", "n[03]=vsi:a311d@i8pc")["n3"] == "vsi:a311d@i8pc"


def test_what_an_affinity_asks_in_vain_falls_through_the_list() -> None:
    assert _places("cpu,vsi:a311d", "op:Asinh=vsi:a311d")["Asinh"] == "cpu@fp32"


@pytest.mark.parametrize(
    ("affinity", "says"),
    [
        ("n0", "GLOB=TARGET"),
        ("=cpu", "GLOB=TARGET"),
        ("n0=", "GLOB=TARGET"),
        ("n0=gpu", "it is not among the devices"),
        ("ghost*=cpu", "matches no node"),
        ("op:Ghost=cpu", "matches no node"),
    ],
)
def test_wrong_affinities(affinity: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        _places("vsi:a311d,cpu", affinity)


@pytest.mark.parametrize("text", ["cpu(workers=3)", "cpu(zthreads=3)", "cpu(runs=3)", "cpu(threads=-3)"])
def test_only_threads_count_threads(text: str) -> None:
    with pytest.raises(PlanError, match="is no option"):
        parse_devices(text)


def test_affinities_go_with_a_placement_and_its_fallbacks() -> None:
    npu, host = parse_placement("vsi:a311d@u8"), parse_placement("cpu@fp32")
    recipe = with_affinities(Recipe(npu, (host,)), ["n0=cpu", "op:Relu=vsi:a311d"])
    assert [(str(rule.placement), rule.node, rule.op) for rule in recipe.rules] == [
        ("cpu@fp32", "n0", None),
        ("vsi:a311d@u8", "*", "Relu"),
    ]
    assert recipe.fallback == (host, npu)
    assert with_affinities(Recipe(npu, (host,)), []) == Recipe(npu, (host,))
    with pytest.raises(PlanError, match="not among the devices"):
        with_affinities(Recipe(npu, (host,)), ["n0=openvino:CPU"])
