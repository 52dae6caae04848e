"""How boards may compute otherwise than the exact simulation of a part: what differences are tried against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dovetail.backend.arithmetic import ORT, TFLITE, Arithmetic, Carrier, Rounding, Tie, ZeroPointOrder
from dovetail.backend.protocols import OtherRule, Signature
from dovetail.backend.target import Target
from dovetail.backends.reference.interpreter import run_graph
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.generation import Generation
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import VsiProfile, part_of, profile_of
from dovetail.ir import AnyArray, Graph

Arrays = Mapping[str, AnyArray]

_WIDTHS = {16: "with multipliers of 16 bits", 24: "with multipliers of 24 bits", None: "with multipliers in float64"}
_TIES = {
    Tie.EVEN: "with halves rounded to even",
    Tie.AWAY: "with halves rounded away from zero",
    Tie.UP: "with halves rounded up",
}
_ORDERS = {
    ZeroPointOrder.AFTER: "with the zero point added after rounding",
    ZeroPointOrder.BEFORE: "with the zero point added before rounding",
}
_CARRIERS = {
    Carrier.EXACT: "with results that are rounded once, from float64",
    Carrier.SINGLE: "with results in float32 before they are rounded",
}


def other_rules(graph: Graph, target: Target) -> Sequence[OtherRule]:
    """Return the rules of other parts, other multipliers and roundings, tables, and other makers' kernels."""
    own = profile_of(target)
    return (
        *_multipliers(graph, own.arithmetic),
        *_parts(graph, own),
        *_roundings(graph, own.arithmetic),
        *_rest(graph, own),
    )


def _multipliers(graph: Graph, own: Arithmetic) -> Iterator[OtherRule]:
    for bits, text in _WIDTHS.items():
        if bits != own.multiplier_bits:
            yield OtherRule("multiplier", text, partial(_by, graph, replace(own, multiplier_bits=bits)))


def _parts(graph: Graph, own: VsiProfile) -> Iterator[OtherRule]:
    """Yield one part of every other generation: those of one generation compute alike."""
    seen: set[Generation] = {own.generation}
    for profile in VSI_PROFILES:
        if profile.generation not in seen:
            seen.add(profile.generation)
            text = f"as {profile.name} does ({profile.generation.value}): it may be another part than {own.name}"
            yield OtherRule("part", text, partial(_as_part, graph, profile))


def _roundings(graph: Graph, own: Arithmetic) -> Iterator[OtherRule]:
    for tie, text in _TIES.items():
        yield OtherRule("rounding", text, partial(_by, graph, _rounded(own, tie=tie)))
    for order, text in _ORDERS.items():
        yield OtherRule("zero point", text, partial(_by, graph, _rounded(own, zero_point=order)))
    for carrier, text in _CARRIERS.items():
        yield OtherRule("carrier", text, partial(_by, graph, _rounded(own, carrier=carrier)))


def _rest(graph: Graph, own: VsiProfile) -> Iterator[OtherRule]:
    yield OtherRule(
        "table", "from the function itself, where the part looks a table up", partial(_by, graph, own.arithmetic)
    )
    yield OtherRule("kernel", "as TFLite's reference kernels do", partial(_by, graph, TFLITE))
    yield OtherRule("kernel", "as ONNX Runtime's integer kernels do", partial(_by, graph, ORT))


def _rounded(own: Arithmetic, **changes: object) -> Arithmetic:
    def changed(rounding: Rounding) -> Rounding:
        return replace(rounding, **changes)  # type: ignore[arg-type]

    return replace(own, default=changed(own.default), by_op={key: changed(one) for key, one in own.by_op.items()})


def _by(graph: Graph, arithmetic: Arithmetic, inputs: Arrays) -> Arrays:
    values = run_graph(graph, inputs, arithmetic)
    return {name: values[name] for name in graph.outputs}


def _as_part(graph: Graph, profile: VsiProfile, inputs: Arrays) -> Arrays:
    return Emulation(lower_graph(graph, part_of(profile)), Signature.of(graph)).run(inputs)
