"""Judge a model that another tool quantised: what it scores on a target, what it costs, what is not honoured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from dovetail.backend.registry import find_target
from dovetail.compare.honour import HonourRequest, honour_graph
from dovetail.compare.judgement import JudgedNode, JudgedScore, Judgement
from dovetail.data import Preprocess, SampleSource, first_samples, load_preprocess, open_samples, specs_of
from dovetail.errors import QuantizeError
from dovetail.fit.judged_cost import JudgedPrice, PriceSources, float_plan, price_judged
from dovetail.fit.judged_run import DeployedModel, JudgedMetric, arithmetic_of, score_deployed
from dovetail.fit.listener import FitListener, SilentFit
from dovetail.fit.metric import ChosenMetric, choose_metric
from dovetail.fit.pictures import choose_preprocess
from dovetail.fit.request import Place
from dovetail.importers import LoadOptions, load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.plan.placement import HOST
from dovetail.quantize import Dequantized, dequantize, is_quantized
from dovetail.quantize.adapt import PlacedNode, adapt
from dovetail.quantize.boundaries import WORLD
from dovetail.search import parse_goal
from dovetail.search.samples import SampleSet

_OWN = "the reals that the file's integers stand for"


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """Which model is judged, on which target, against what."""

    model: Place
    """A model that came quantised: ONNX (Q/DQ pairs or integer operators) or TFLite."""
    data: Place
    """Samples, as for a fit."""
    target: str = "vsi:v853"
    _: KW_ONLY
    load: LoadOptions = field(default_factory=LoadOptions)
    float_model: Place | None = None
    """The float model that counts as right; None takes the reals that the file's integers stand for."""
    labels: Place | None = None
    """Labels beside the samples (CSV or JSON)."""
    preprocess: Place | Preprocess | None = None
    """How images become inputs, as for a fit."""
    float_preprocess: Place | None = None
    """The same for the float model; None takes the judged model's."""
    metric: str | None = None
    """Name, or `file.py:function`; None is top1 where samples have labels, else `decisions`: agreement with float's."""
    decisions: str | None = None
    """What outputs decide, as for a fit; None recognises it."""
    max_drop: str = "1%"
    """Allowed loss: `0.01` of the metric, or `1%` of the float score."""
    min_score: float | None = None
    """Least score on the target."""
    limit: int | None = None
    """Only the first so many samples."""
    float_on_host: bool = False
    """Run on the CPU what the file leaves in float, even where the target takes it."""
    price: PriceSources = field(default_factory=PriceSources)


def judge(request: JudgeRequest, listener: FitListener | None = None) -> Judgement:
    """Return what a target makes of a model that came quantised.

    Raises QuantizeError where the model is not quantised or the float model is, DovetailError for what cannot be used.
    """
    progress = listener or SilentFit()
    goal = parse_goal(request.max_drop, request.min_score)
    target, host = find_target(request.target), find_target(HOST)
    opened = _Opened.of(request, progress)
    nodes = honour_graph(opened.graph, HonourRequest(target, host, request.float_on_host))
    metric = JudgedMetric(opened.reference, opened.float_samples, opened.metric)
    float_score, count = metric.float_score(), opened.samples.count
    progress.stage("the file's own integers", count)
    own = score_deployed(opened.deployed(_on_host(nodes)), metric, progress)
    placed = {item.node: item.placed for item in nodes if item.placed is not None}
    refused = next((item for item in nodes if item.placed is None), None)
    plan = float_plan(opened.lifted.graph, nodes, target.name)
    if refused is None:
        model = opened.deployed(placed)
        progress.stage(f"on {target.name}", count)
        score = score_deployed(model, metric, progress)
        progress.stage("pricing")
        price = price_judged(opened.lifted.graph, plan, model.quantized, request.price)
        conversions = len(model.quantized.boundaries)
    else:
        why = f"nothing runs node '{refused.node}' ({refused.op}): {refused.reason}"
        score, price, conversions = JudgedScore(None, why), JudgedPrice(None, reason=why), 0
    return Judgement(
        model=str(request.model),
        target=target.name,
        arithmetic=arithmetic_of(target.name),
        reference=_OWN if request.float_model is None else str(request.float_model),
        metric=opened.metric.metric.name,
        samples=count,
        float_score=float_score,
        own=own,
        score=score,
        allowance=goal.allowance(float_score),
        least=goal.min_score,
        nodes=nodes,
        conversions=conversions,
        plan=plan,
        cost=price.cost,
        modelled=price.modelled,
        cost_reason=price.reason,
        notes=opened.notes,
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """A request with everything that it names read and checked."""

    graph: Graph
    lifted: Dequantized
    reference: Graph
    """The float graph that counts as right."""
    samples: SampleSet
    float_samples: SampleSet
    """The same samples as the float graph takes them."""
    metric: ChosenMetric
    notes: tuple[str, ...]

    @classmethod
    def of(cls, request: JudgeRequest, progress: FitListener) -> _Opened:
        """Open a request."""
        graph = _load(request.model, request.load, progress)
        if not is_quantized(graph):
            raise QuantizeError(
                f"'{request.model}' has no scales of its own: it is a float model, or quantised only as it runs "
                "(quantize_dynamic), and there is no quantisation to judge.",
                hint="Give the file that a quantiser wrote, and this one as the float model.",
                option="float_model",
            )
        lifted = dequantize(graph)
        reference = lifted.graph if request.float_model is None else _load_float(request, progress)
        preprocess = choose_preprocess(request, graph, lifted.graph)
        source = _open(request, lifted.graph, preprocess.preprocess)
        samples = SampleSet(lifted.graph, source)
        if request.float_model is None:
            float_source, float_samples = source, samples
        else:
            steps = preprocess.preprocess
            if request.float_preprocess is not None:
                steps = load_preprocess(Path(request.float_preprocess))
            float_source = _open(request, reference, steps)
            float_samples = SampleSet(reference, float_source)
        metric = choose_metric(request.metric, request.decisions, reference, float_source)
        notes = tuple(filter(None, (metric.note, *preprocess.notes)))
        for note in notes:
            progress.note(note)
        return cls(graph, lifted, reference, samples, float_samples, metric, notes)

    def deployed(self, nodes: Mapping[str, PlacedNode]) -> DeployedModel:
        """Return the model with its nodes placed."""
        return DeployedModel(adapt(self.graph, nodes), self.samples, self.reference)


def _load(path: Place, options: LoadOptions, progress: FitListener) -> Graph:
    conversion = replace(options.conversion, progress=progress.converting)
    return normalize(load_model(path, replace(options, conversion=conversion)), options.passes)


def _load_float(request: JudgeRequest, progress: FitListener) -> Graph:
    assert request.float_model is not None
    graph = _load(request.float_model, request.load, progress)
    if is_quantized(graph):
        raise QuantizeError(
            f"'{request.float_model}' is quantised itself: it cannot count as float.",
            hint="Leave it out: the reals that the judged file stands for count then.",
            option="float_model",
        )
    return graph


def _open(request: JudgeRequest, graph: Graph, steps: Preprocess | None) -> SampleSource:
    labels = None if request.labels is None else Path(request.labels)
    return first_samples(open_samples(request.data, specs_of(graph), steps, labels), request.limit)


def _on_host(nodes: Sequence[JudgedNode]) -> Mapping[str, PlacedNode]:
    return {item.node: PlacedNode(WORLD) for item in nodes}
