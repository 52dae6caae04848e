"""Judging models that other tools quantised, and our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import dovetail
from dovetail.compare.judgement import NodeOutcome
from dovetail.errors import CostError, DovetailError
from dovetail.exporters import to_onnx
from dovetail.fit import JudgeRequest, PriceSources, judge
from dovetail.fit.metric import choose_metric
from dovetail.ir import AnyArray, Graph, save_graph
from dovetail.ir.precision import Precision
from dovetail.plan import Override, Placement, Plan
from dovetail.report import judgement_document, judgement_page, page_text
from dovetail.search.evaluator import EvaluationData
from dovetail.search.pipeline import Pipeline
from dovetail.search.samples import SampleSet
from dovetail.testing.networks import Network

TARGET = "vsi:a311d"


def _classifier() -> Graph:
    net = Network(3)
    hidden = net.op("Relu", net.conv(net.input("x", 1, 2, 8, 8), 6, 3))
    hidden = net.op("Relu", net.conv(hidden, 8, 3))
    pooled = net.op("Flatten", net.op("GlobalAveragePool", hidden, shape=(1, 8, 1, 1)), shape=(1, 8))
    return net.graph(net.op("Softmax", pooled, axis=1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small float classifier and 40 samples."""
    made = tmp_path_factory.mktemp("judge")
    onnx.save(to_onnx(_classifier()), made / "float.onnx")
    np.savez(made / "samples.npz", x=np.random.default_rng(4).normal(size=(40, 2, 8, 8)).astype(np.float32))
    return made


class _Reader(CalibrationDataReader):
    """Samples as ONNX Runtime's quantiser takes them."""

    def __init__(self, path: Path) -> None:
        self._samples: Iterator[AnyArray] = iter(np.load(path)["x"])

    def get_next(self) -> dict[str, object] | None:
        sample = next(self._samples, None)
        return None if sample is None else {"x": sample[None]}


@pytest.fixture(scope="module")
def quantized(folder: Path) -> Callable[..., Path]:
    """Return a function that quantises the classifier with ONNX Runtime."""

    def make(name: str, **options: object) -> Path:
        path = folder / f"{name}.onnx"
        if not path.exists():
            quantize_static(folder / "float.onnx", path, _Reader(folder / "samples.npz"), **options)
        return path

    return make


_FORMS = {
    "u8u8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
    "u8s8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8},
    "s8pc": {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True},
    "operators": {
        "activation_type": QuantType.QUInt8,
        "weight_type": QuantType.QInt8,
        "quant_format": QuantFormat.QOperator,
    },
    "s16s8": {"activation_type": QuantType.QInt16, "weight_type": QuantType.QInt8},
}


@pytest.mark.parametrize(
    ("name", "target", "outcomes"),
    [
        ("u8u8", "vsi:a311d", {NodeOutcome.HONOURED}),
        ("u8s8", "vsi:a311d", {NodeOutcome.HONOURED, NodeOutcome.RESTATED}),
        ("s8pc", "vsi:a311d", {NodeOutcome.HONOURED}),
        ("s8pc", "vsi:v853", {NodeOutcome.HONOURED}),
        ("operators", "vsi:v853", {NodeOutcome.HONOURED, NodeOutcome.RESTATED}),
        ("s16s8", "vsi:a311d", {NodeOutcome.CHANGED}),
    ],
)
def test_what_onnx_runtime_quantised(
    folder: Path, quantized: Callable[..., Path], name: str, target: str, outcomes: set[NodeOutcome]
) -> None:
    path = quantized(name, **_FORMS[name])
    found = judge(JudgeRequest(path, folder / "samples.npz", target, float_model=folder / "float.onnx", metric="noise"))
    assert {item.outcome for item in found.nodes} == outcomes
    assert found.samples == 40
    assert found.own.value is not None
    assert found.score.value is not None
    # One rounding more or less: the target is as near to float as the file's own integers.
    assert abs(found.score.value - found.own.value) < 0.05
    assert 0.5 < found.score.value < found.float_score
    assert found.cost is not None
    assert found.cost.latency_ns > 0


def test_without_a_float_model_the_files_own_reals_count(folder: Path, quantized: Callable[..., Path]) -> None:
    request = JudgeRequest(quantized("u8u8", **_FORMS["u8u8"]), folder / "samples.npz", TARGET, metric="noise")
    found = judge(request)
    beside = judge(replace(request, float_model=folder / "float.onnx"))
    assert (found.reference, beside.reference) == (
        "the reals that the file's integers stand for",
        str(folder / "float.onnx"),
    )
    assert found.float_score == beside.float_score
    assert found.score.value != beside.score.value


@pytest.mark.parametrize("target", ["vsi:a311d", "vsi:v853", "vsi:imx8mp"])
def test_our_own_export_is_honoured_with_the_score_of_its_plan(folder: Path, tmp_path: Path, target: str) -> None:
    graph = dovetail.normalize(dovetail.load_model(folder / "float.onnx"))
    samples = dovetail.open_samples(str(folder / "samples.npz"), dovetail.specs_of(graph))
    ranges = dovetail.calibrate(graph, samples).ranges
    convs = [node.name for node in graph.nodes if node.op == "Conv"]
    soft = next(node.name for node in graph.nodes if node.op == "Softmax")
    places = {
        convs[1]: Placement(target, Precision.I16),
        soft: Placement("cpu", Precision.FP32),
    }
    overrides = {name: Override(place, "by hand") for name, place in places.items()}
    plan = Plan(graph.digest, Placement(target, Precision.U8), overrides)
    (tmp_path / "ours.onnx").write_bytes(to_onnx(dovetail.quantize(graph, plan, ranges).graph).SerializeToString())
    request = JudgeRequest(
        tmp_path / "ours.onnx",
        folder / "samples.npz",
        target,
        float_model=folder / "float.onnx",
        metric="noise",
        float_on_host=True,
    )
    found = judge(request)
    assert {item.outcome for item in found.nodes} == {NodeOutcome.HONOURED}
    chosen = choose_metric("noise", None, graph, samples)
    data = EvaluationData(graph, SampleSet(graph, samples), chosen.metric, chosen.identity)
    wanted = Pipeline(data, ranges).evaluate(plan, range(40)).score
    assert found.score.value == wanted


def test_an_int8_tflite_file(models: Path, tmp_path: Path) -> None:
    data = np.load(models / "data_cifar10" / "ic01_200.npz")
    np.savez(tmp_path / "cifar.npz", x=data["x"][:40].astype(np.float32), label=data["label"][:40])
    folder = models / "ic01_resnet8_cifar10"
    request = JudgeRequest(
        folder / "resnet8_int8.tflite",
        tmp_path / "cifar.npz",
        TARGET,
        float_model=folder / "resnet8_float.tflite",
        max_drop="0.05",
    )
    found = judge(request)
    assert found.counts[NodeOutcome.HONOURED] == len(found.nodes) == 24
    assert (found.metric, found.samples, found.met) == ("top1", 40, True)
    assert found.score.value is not None
    assert found.score.value > 0.75


def test_what_cannot_be_judged(folder: Path, quantized: Callable[..., Path], tmp_path: Path) -> None:
    path = quantized("u8u8", **_FORMS["u8u8"])
    good = JudgeRequest(path, folder / "samples.npz", TARGET, metric="noise")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.onnx").write_bytes(path.read_bytes()[:300])
    two = Network(1)
    both = two.op("Relu", two.input("x", 1, 2, 8, 8))
    onnx.save(to_onnx(two.graph(both, two.op("Abs", both))), tmp_path / "two.onnx")
    for request, words in (
        (replace(good, model=folder / "float.onnx"), "is a float model"),
        (replace(good, float_model=path), "is quantised itself"),
        (replace(good, target="vsi:a311"), "vsi:a311d"),
        (replace(good, model=tmp_path / "cut.onnx"), "cut.onnx"),
        (replace(good, model=tmp_path / "none.onnx"), "none.onnx"),
        (replace(good, data=tmp_path / "empty"), "empty"),
        (replace(good, max_drop="much"), "much"),
        (replace(good, limit=0), "too few"),
        (replace(good, float_model=tmp_path / "two.onnx"), "1 outputs and the float model 2"),
        (replace(good, price=PriceSources(host="cortex-a9")), "cortex-a9"),
    ):
        with pytest.raises(DovetailError, match=words):
            judge(request)


def test_a_vendors_model_that_is_not_here_is_an_error(folder: Path, quantized: Callable[..., Path]) -> None:
    path = quantized("u8u8", **_FORMS["u8u8"])
    sources = PriceSources(boards={})
    with pytest.raises(CostError, match="no vendor's performance model"):
        judge(JudgeRequest(path, folder / "samples.npz", "cpu", metric="noise", price=sources))


def test_what_nothing_runs_has_no_score_and_no_price(folder: Path, tmp_path: Path) -> None:
    graph = dovetail.normalize(dovetail.load_model(folder / "float.onnx"))
    samples = dovetail.open_samples(str(folder / "samples.npz"), dovetail.specs_of(graph))
    plan = Plan(graph.digest, Placement(TARGET, Precision.U8))
    made = dovetail.quantize(graph, plan, dovetail.calibrate(graph, samples).ranges).graph
    nodes = tuple(replace(node, op="Mystery", domain="ours") if node.op == "Flatten" else node for node in made.nodes)
    save_graph(made.evolve(nodes=nodes), tmp_path / "mystery.dvg")
    found = judge(
        JudgeRequest(
            tmp_path / "mystery.dvg",
            folder / "samples.npz",
            TARGET,
            float_model=folder / "float.onnx",
            metric="noise",
        )
    )
    assert found.counts[NodeOutcome.REFUSED] == 1
    assert (found.score.value, found.own.value, found.cost, found.met) == (None, None, None, False)
    assert found.score.reason == found.cost_reason
    assert "(Mystery): the target has no operator ours::Mystery; cpu: " in found.score.reason
    page = page_text(judgement_page(found, every_node=True))
    assert page.splitlines()[0] == "There is no score on the target."
    assert judgement_document(found)["cost"] is None
