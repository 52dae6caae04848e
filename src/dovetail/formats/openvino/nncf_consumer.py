"""NNCF as the consumer of ignored scopes: which operators of OpenVINO's model read rounded numbers.

OpenVINO's model has its constants folded, as `openvino.convert_model` gives it: NNCF takes a bias that is still
computed for no bias. What comes out is run in float32 but for the bytes: some processors would take bfloat16.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dovetail.data import SampleSource
from dovetail.errors import FormatError
from dovetail.exporters import to_onnx
from dovetail.formats.binding import Binding, bind_sources
from dovetail.formats.consumer import FLOAT, ConsumerReading, ConsumerRequest, ReadNode, judge_node, noise_inputs
from dovetail.formats.openvino.model import bind_operators
from dovetail.formats.openvino.nncf import expected_model
from dovetail.formats.openvino.weights import fold_constants
from dovetail.formats.own_model import MODEL, own_names
from dovetail.formats.text import mapping_in, read_json, texts_in
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.roles import CLAMPS
from dovetail.plan.plan import Plan
from dovetail.plan.quantized import QuantizedGraph

if TYPE_CHECKING:
    import openvino

_ROUNDED = "FakeQuantize"
_MOVES = frozenset(
    {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "StridedSlice", "Split", "VariadicSplit", "Gather"}
    | {"MaxPool", "Convert", "DepthToSpace", "SpaceToDepth", "Tile", "ReduceMax", "Broadcast", "ShuffleChannels"}
    | {"Pad", "Concat"}
)
"""Operators that hand on rounded numbers as they are: NNCF puts no rounding behind them, and they are not judged."""
_CLAMPS = frozenset({"Relu", "Clamp", "Maximum", "Minimum"})
"""What a Relu or a Clip of ONNX becomes."""
_BYTE = "8 bits"
_CALLED = (
    " after fold_constants with preset=MIXED, overflow_fix=DISABLE, activations_range_estimator_params=MINMAX,"
    " disable_bias_correction=True"
)
_FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}
_STORED = ("i8", "u8")
"""OpenVINO's names of bytes."""


@dataclass(frozen=True, slots=True)
class NncfConsumer:
    """Quantise OpenVINO's reading of the user's ONNX file around the scope, and compile what comes out."""

    models: str = ".onnx"
    needs_model: bool = False

    def read(self, request: ConsumerRequest) -> ConsumerReading:
        """Return which nodes NNCF rounds for; raise FormatError where it refuses the scope or the model."""
        import nncf
        import openvino

        graph, feeds = request.graph, request.samples or noise_inputs(request.graph)
        content, bound = request.model, graph
        if MODEL in request.written.beside:
            content, bound = request.written.beside[MODEL], own_names(graph)
        content = content if content is not None else to_onnx(graph).SerializeToString()
        where = "the exported file"
        scope = mapping_in(read_json(request.written.content, where), where, "an ignored scope")
        try:
            source = openvino.Core().read_model(content)
            fold_constants(source)
            names = bind_operators(source, bound)
            scope["names"] = _friendly(texts_in(scope.get("names", []), where, "names"), bound, names, source)
            model = _quantized(source, scope, feeds)
            nodes = tuple(_compared(request, names, model))
            compiled = openvino.Core().compile_model(model, "CPU", _FLOAT32)
            outputs = tuple(_run(compiled, graph, item) for item in request.run)
        except FormatError:
            raise
        except Exception as error:  # NNCF's and OpenVINO's errors have no common type
            message = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip().rstrip(".")
            raise FormatError(f"NNCF refuses it: {message}.", path=where, line=0, code="CONSUMER") from error
        return ConsumerReading(f"NNCF {nncf.__version__}{_CALLED}, OpenVINO {openvino.__version__}", nodes, outputs)

    def expected(self, graph: Graph, plan: Plan, samples: SampleSource) -> QuantizedGraph:
        """Return the model that NNCF's rules make of a plan, with samples to calibrate on."""
        return expected_model(graph, plan, samples)


def _quantized(
    source: openvino.Model, scope: Mapping[str, Any], feeds: Sequence[Mapping[str, AnyArray]]
) -> openvino.Model:
    """Return what NNCF makes.

    By default it gives 7 bits to the weights of convolutions that have no other rounded one before them, for the sake
    of old processors: with most of a network in float these are many, and a plan of 8 bits means 8. Nor are its ranges
    those that plans are judged with, but symmetric, and the mean of what each sample reaches: it is asked for zero
    points, and for all that samples reach. And it corrects biases by what it computes of the means of channels, where
    borders of padding count as errors of rounding: a plan asks for no correction.
    """
    import nncf
    from nncf.quantization.range_estimator import RangeEstimatorParametersSet

    with _quiet():
        return nncf.quantize(
            source,
            nncf.Dataset([dict(item) for item in feeds]),
            ignored_scope=nncf.IgnoredScope(**scope),
            subset_size=len(feeds),
            preset=nncf.QuantizationPreset.MIXED,
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                overflow_fix=nncf.OverflowFix.DISABLE,
                activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX,
                disable_bias_correction=True,
            ),
        )


def _friendly(listed: Sequence[str], graph: Graph, names: Binding, model: openvino.Model) -> list[str]:
    """Return names of ONNX nodes as OpenVINO has them: one that makes an output is called like that there."""
    known = {item.get_friendly_name() for item in model.get_ordered_ops()}
    nodes_of, operators = bind_sources(graph).nodes_of, list(names.nodes_of.items())
    made: dict[str, None] = {}
    for name in listed:
        stands = nodes_of.get(name, ())
        other = [item for item, nodes in operators if item in known and set(nodes) & set(stands)]
        # A convolution with a bias is two operators there, of which one has the name.
        made.update(dict.fromkeys([name, *other] if name in known else other or [name]))
    return list(made)


def _compared(request: ConsumerRequest, names: Binding, model: openvino.Model) -> Iterator[ReadNode]:
    """Yield what NNCF does for every node whose operators it kept; `names` are those of the model before."""
    graph = request.graph
    operators = {item.get_friendly_name(): item for item in model.get_ordered_ops()}
    stands: dict[str, list[Any]] = {}
    for name, nodes in names.nodes_of.items():
        operator = operators.get(name)
        if operator is not None and operator.get_type_name() not in ("Constant", "Result") and _makes_reals(operator):
            for label in nodes:
                stands.setdefault(label, []).append(operator)
    group_of = {item.get_friendly_name(): tuple(found) for found in stands.values() for item in found}
    floats = {node.name for node in graph.nodes if not request.plan.placement(node.name).precision.is_quantized}
    kept = frozenset(name for name, nodes in names.nodes_of.items() if nodes and floats.issuperset(nodes))
    for node in graph.nodes:
        found = stands.get(node.name)
        if not found or all(item.get_type_name() in _MOVES for item in found):
            continue
        inside = frozenset(item.get_friendly_name() for item in found)
        precision = request.plan.placement(node.name).precision
        if precision.is_quantized:
            clamps = node.op in CLAMPS
            given = _BYTE if _all_read_bytes(found, group_of, clamps) else FLOAT
            yield judge_node(node, precision, [(_BYTE, given)])
        else:
            rounded = any(_is_rounded_for(item, inside, kept) for item in found)
            yield judge_node(node, precision, [(FLOAT, _BYTE if rounded else FLOAT)])


def _makes_reals(operator: Any) -> bool:
    return any(value.get_element_type().is_real() for value in operator.outputs())


def _all_read_bytes(group: Sequence[Any], group_of: Mapping[str, Sequence[Any]], clamps: bool) -> bool:
    """Tell whether all reals that the operators of a node compute with were rounded before, but for their own.

    An operator that stands for no node (OpenVINO adds a bias by one of its own) belongs to its reader; what `clamps`
    belongs to the operators of bytes before it, with what moves numbers between the two: NNCF rounds behind all.
    """
    inside = {item.get_friendly_name() for item in group}
    for item in group:
        for source in _computed(item):
            name = source.get_friendly_name()
            if name in inside or _is_rounded(source):
                continue
            joined = name not in group_of or (clamps and item.get_type_name() in _CLAMPS | _MOVES)
            if not joined or source.get_type_name() == "Parameter":
                return False
            if not _all_read_bytes(group_of.get(name, (source,)), group_of, clamps):
                return False
    return True


def _is_rounded_for(operator: Any, inside: frozenset[str], kept: frozenset[str]) -> bool:
    """Tell whether weights of an operator are rounded, or reals of which the plan has no bytes.

    What operators of bytes make may be rounded before an operator in float reads it; `kept` are those in float.
    """
    for value in operator.input_values():
        source = value.get_node()
        if not value.get_element_type().is_real() or source.get_friendly_name() in inside:
            continue
        if _is_constant(source):
            if _is_stored_in_bytes(source):
                return True
        elif _is_rounded(source) and any(
            maker.get_type_name() == "Parameter" or maker.get_friendly_name() in kept for maker in _makers(source)
        ):
            return True
    return False


def _is_stored_in_bytes(source: Any) -> bool:
    """Tell whether a constant is rounded, or made of bytes."""
    if source.get_type_name() == _ROUNDED:
        return True
    if source.get_type_name() == "Constant":
        return source.get_element_type().get_type_name() in _STORED
    return any(_is_stored_in_bytes(value.get_node()) for value in source.input_values())


def _makers(source: Any) -> Iterator[Any]:
    """Yield the operators whose reals an operator hands on, rounded or not."""
    waiting, seen = [source], set()
    while waiting:
        item = waiting.pop()
        if item.get_friendly_name() in seen:
            continue
        seen.add(item.get_friendly_name())
        if item.get_type_name() in (_ROUNDED, *_MOVES):
            data = item.input_values() if item.get_type_name() == "Concat" else item.input_values()[:1]
            waiting += [value.get_node() for value in data]
        else:
            yield item


def _computed(operator: Any) -> Iterator[Any]:
    """Yield the operators whose reals another reads, but for constants and what is made of constants alone."""
    for value in operator.input_values():
        if value.get_element_type().is_real() and not _is_constant(value.get_node()):
            yield value.get_node()


def _is_constant(source: Any) -> bool:
    if source.get_type_name() == "Constant":
        return True
    reads = source.input_values()
    return len(reads) > 0 and all(_is_constant(value.get_node()) for value in reads)


def _is_rounded(source: Any) -> bool:
    """Tell whether an operator makes rounded numbers: it rounds, or hands on what only roundings make."""
    waiting, seen = [source], set()
    while waiting:
        item = waiting.pop()
        name, kind = item.get_friendly_name(), item.get_type_name()
        if name in seen or kind in (_ROUNDED, "Constant"):
            continue
        seen.add(name)
        if kind not in _MOVES:
            return False
        data = item.input_values() if kind == "Concat" else item.input_values()[:1]
        waiting += [value.get_node() for value in data]
    return True


def _run(compiled: Any, graph: Graph, feeds: Mapping[str, AnyArray]) -> Mapping[str, AnyArray]:
    made = compiled(dict(feeds))
    return {name: made[index] for index, name in enumerate(graph.outputs)}


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep NNCF's log and bars of progress off the screen."""
    import contextlib
    import io

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


NNCF = NncfConsumer()
