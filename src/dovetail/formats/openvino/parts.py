"""Predict into how many parts HETERO cuts a model: the rule of OpenVINO 2026.3 and 2026.4.

A part holds operators that links of one device join. Where data leaves a part and comes back, the part is cut: an
operator behind the way back goes apart from a source that the way back does not depend on. Such links are looked for in
rounds, until a round finds none. Then, as long as parts wait for each other in a ring, one operator after the other is
cut off from its part. Constants join what reads them, as operators do. `docs/reference/hetero.md` has how often
OpenVINO makes as many parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dovetail.formats.openvino.model import OpenVinoModel

_BEGINS = frozenset({"Parameter", "Constant"})
_ENDS = frozenset({"Parameter", "Result", "Assign"})

_JUDGED = frozenset({"2026.3", "2026.4"})
"""Versions of OpenVINO that cut as this module says (`docs/reference/hetero.md`)."""

Link = tuple[int, int]
"""An operator, by its place in the model's order, and the number of one of its inputs."""


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator in the model's order."""

    kind: str
    device: str
    sources: tuple[int, ...]
    """The operators that it reads."""
    alone: tuple[bool, ...] = ()
    """Of every input: whether nothing else reads the tensor."""
    readers: int = 0
    """How many inputs read it, without those of results."""

    @property
    def begins(self) -> bool:
        return self.kind in _BEGINS


@dataclass(frozen=True, slots=True)
class HeteroPrediction:
    """How HETERO cuts a model."""

    count: int
    """Into how many submodels."""
    sure: bool
    """Whether the installed OpenVINO is known to do so: where data comes back to a part it left, versions differ."""
    parts: tuple[int, ...]
    """The part of every operator, in the model's order; those of constants alone are none."""
    cuts: tuple[Link, ...]
    """The links between parts that carry more than a constant."""


def predict_submodels(model: OpenVinoModel, affinities: Mapping[str, str]) -> int:
    """Return into how many submodels HETERO cuts a model whose operators have these devices, by friendly name."""
    return predict_parts(model, affinities).count


def predict_parts(model: OpenVinoModel, affinities: Mapping[str, str]) -> HeteroPrediction:
    """Return how HETERO cuts a model, and whether that is sure."""
    operators = _operators(model, affinities)
    first = _first_borders(operators)
    borders = set(first)
    while found := _way_back(operators, borders) - borders:
        borders |= found
    while found := _out_of_ring(operators, borders):
        borders |= found
    parts = _parts(operators, borders)
    cuts = tuple(_cuts(operators, parts))
    sure = borders == first or _installed() in _JUDGED
    return HeteroPrediction(_count(operators, parts, cuts), sure, tuple(parts), cuts)


def _installed() -> str:
    import openvino

    return ".".join(openvino.__version__.split(".")[:2])


def _operators(model: OpenVinoModel, affinities: Mapping[str, str]) -> list[_Operator]:
    ops = list(model.get_ordered_ops())
    index = {op.get_name(): number for number, op in enumerate(ops)}
    read = [[item.get_source_output() for item in op.inputs()] for op in ops]
    links = [tuple((index[one.get_node().get_name()], one.get_index()) for one in outputs) for outputs in read]
    uses = Counter(link for one in links for link in one)
    readers = Counter(
        source for op, one in zip(ops, links, strict=True) for source, _ in one if op.get_type_name() != "Result"
    )
    made: list[_Operator] = []
    for number, (op, one) in enumerate(zip(ops, links, strict=True)):
        sources, alone = tuple(source for source, _ in one), tuple(uses[link] == 1 for link in one)
        new = _Operator(op.get_type_name(), affinities[op.get_friendly_name()], sources, alone, readers[number])
        # What a model gives is where it is made.
        made.append(replace(new, device=made[sources[0]].device) if new.kind == "Result" else new)
    return made


def _first_borders(operators: Sequence[_Operator]) -> set[Link]:
    """Return the links between devices; what begins a model is a border itself."""
    borders: set[Link] = set()
    for number, op in enumerate(operators):
        if op.begins:
            borders.add((number, 0))
        borders |= {(number, port) for port, one in enumerate(op.sources) if operators[one].device != op.device}
    return borders


def _parts(operators: Sequence[_Operator], borders: set[Link]) -> list[int]:
    """Return the part of every operator: what links join that are no borders."""
    above = list(range(len(operators)))

    def top(number: int) -> int:
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    for number, op in enumerate(operators):
        for port, source in enumerate(op.sources):
            if (number, port) not in borders:
                above[top(number)] = top(source)
    return [top(number) for number in range(len(operators))]


def _way_back(operators: Sequence[_Operator], borders: set[Link]) -> set[Link]:
    """Return the links that have to become borders: data comes back to a part that it left.

    Sets of borders are bits of integers.
    """
    parts, order = _parts(operators, borders), sorted(borders)
    bit = {link: 1 << place for place, link in enumerate(order)}
    into, out_of = _at_parts(operators, parts, bit)
    behind = _behind(operators, bit)
    entered = [bits & into.get(part, 0) for bits, part in zip(behind, parts, strict=True)]
    left = [bits & out_of.get(part, 0) for bits, part in zip(behind, parts, strict=True)]
    plain = sum(mask for link, mask in bit.items() if _begins_a_model(operators, link))
    found: set[Link] = set()
    for number, op in enumerate(operators):
        if not left[number]:
            continue
        back = 0
        for reader, port in _links(left[number], order):
            back |= entered[operators[reader].sources[port]]
        for reader, port in _links(entered[number], order):
            one = operators[reader]
            if not one.begins and parts[one.sources[port]] != parts[number]:
                back |= entered[reader]
        for port, source in enumerate(op.sources):
            if left[number] & left[source] or not back & entered[source]:
                continue
            # What is made of a model's inputs and constants for one reader alone stays with it.
            leaf = op.alone[port] and not operators[source].begins and not left[source] and not entered[source] & ~plain
            if not leaf:
                found.add((number, port))
    return found


def _begins_a_model(operators: Sequence[_Operator], link: Link) -> bool:
    op = operators[link[0]]
    return op.begins or operators[op.sources[link[1]]].begins


def _at_parts(
    operators: Sequence[_Operator], parts: Sequence[int], bit: Mapping[Link, int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the borders through which every part is entered, and those through which it is left."""
    into: dict[int, int] = {}
    out_of: dict[int, int] = {}
    for (number, port), mask in bit.items():
        into[parts[number]] = into.get(parts[number], 0) | mask
        if not operators[number].begins:
            source = parts[operators[number].sources[port]]
            out_of[source] = out_of.get(source, 0) | mask
    return into, out_of


def _behind(operators: Sequence[_Operator], bit: Mapping[Link, int]) -> list[int]:
    """Return the borders on any path to each operator."""
    behind: list[int] = []
    for number, op in enumerate(operators):
        bits = bit.get((number, 0), 0) if op.begins else 0
        for port, source in enumerate(op.sources):
            bits |= behind[source] | bit.get((number, port), 0)
        behind.append(bits)
    return behind


def _links(bits: int, order: Sequence[Link]) -> Iterator[Link]:
    while bits:
        lowest = bits & -bits
        yield order[lowest.bit_length() - 1]
        bits ^= lowest


def _out_of_ring(operators: Sequence[_Operator], borders: set[Link]) -> set[Link]:
    """Return the links that keep one operator in its part, of all that are in parts that wait for each other.

    Of those that a link within their part feeds it is the first which, in this order: such another part feeds; reads
    what others of the model read, too; reads nothing that is made of the model's inputs and constants for it alone; is
    no step between one source and one reader; has the fewest such links.
    """
    parts = _parts(operators, borders)
    ringed = _rings(operators, parts)
    best: tuple[tuple[bool, bool, bool, bool, int], set[Link]] | None = None
    for number, op in enumerate(operators):
        if parts[number] not in ringed:
            continue
        links = {(number, port) for port in range(len(op.sources)) if (number, port) not in borders}
        if not links:
            continue
        sources = [operators[op.sources[port]] for _, port in links]
        rank = (
            not any(parts[one] != parts[number] and parts[one] in ringed for one in op.sources),
            not any(one.readers > 1 for one in sources),
            any(_is_leaf(operators, one) for one in sources),
            len(links) == 1 and op.readers <= 1,
            len(links),
        )
        if best is None or rank < best[0]:
            best = rank, links
    return best[1] if best else set()


def _is_leaf(operators: Sequence[_Operator], op: _Operator) -> bool:
    return not op.begins and op.readers == 1 and all(operators[one].begins for one in op.sources)


def _rings(operators: Sequence[_Operator], parts: Sequence[int]) -> set[int]:
    """Return the parts that wait for each other, over whatever others."""
    import numpy as np
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    links = [(parts[source], parts[number]) for number, op in enumerate(operators) for source in op.sources]
    rows, columns = zip(*links, strict=True) if links else ((), ())
    size = len(operators)
    table = csr_array((np.ones(len(links), np.int8), (rows, columns)), shape=(size, size))
    _, labels = connected_components(table, directed=True, connection="strong")
    used = sorted(set(parts))
    members = Counter(int(labels[part]) for part in used)
    return {part for part in used if members[int(labels[part])] > 1}


def _cuts(operators: Sequence[_Operator], parts: Sequence[int]) -> Iterator[Link]:
    """Yield the links between parts; a constant goes along with what reads it."""
    for number, op in enumerate(operators):
        for port, source in enumerate(op.sources):
            if operators[source].kind != "Constant" and parts[source] != parts[number]:
                yield number, port


def _count(operators: Sequence[_Operator], parts: Sequence[int], cuts: Sequence[Link]) -> int:
    """Return the number of parts that read or give something: those of constants alone are none."""
    real = {part for op, part in zip(operators, parts, strict=True) if op.kind in _ENDS}
    for number, port in cuts:
        real |= {parts[number], parts[operators[number].sources[port]]}
    return len(real)
