"""Say a plan in the words of a format, and find the nearest plan where its words do not suffice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from dovetail.errors import InexpressiblePlan
from dovetail.formats.binding import Binding, Together
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.placement import HOST, Placement
from dovetail.plan.plan import Override, Plan

_ORDER = (
    Precision.I8DFP,
    Precision.U8,
    Precision.I8,
    Precision.I8PC,
    Precision.BF16,
    Precision.W8A16,
    Precision.I16,
    Precision.FP16,
    Precision.FP32,
)
"""Precisions by how much they keep: the nearest expressible placement never keeps less than the plan asks."""

_SHOWN_NODES = 5


class Side(Enum):
    """On which side of the border a word puts a node."""

    NPU = "npu"
    CPU = "cpu"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Word:
    """What a format can say of a node, and the placements that it stands for.

    `text` is the spelling in the file; the base word is what unlisted nodes have and often has no spelling.
    """

    text: str
    side: Side
    precisions: tuple[Precision, ...]

    def takes(self, placement: Placement) -> bool:
        """Tell whether the word can stand for a placement."""
        on_cpu = placement.target == HOST
        side = self.side is Side.EITHER or on_cpu == (self.side is Side.CPU)
        return side and placement.precision in self.precisions

    def describe(self) -> str:
        """Return the word as a person reads it."""
        places = {Side.NPU: "on the NPU", Side.CPU: "on the CPU", Side.EITHER: "anywhere"}[self.side]
        names = "/".join(precision.value for precision in self.precisions)
        return f"{self.text}: {names} {places}"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a format says of nodes: the base that unlisted nodes have, and the exceptions.

    One file has one base placement, and every exception word stands for one placement in it.
    """

    base: tuple[Word, ...]
    exceptions: tuple[Word, ...]

    def describe(self) -> str:
        """Return the vocabulary in one line."""
        base = " or ".join(word.describe() for word in self.base)
        rest = "; ".join(word.describe() for word in self.exceptions)
        return f"all nodes {base}" + (f"; except {rest}" if rest else "")


@dataclass(frozen=True)
class Spelling:
    """What a file must say: the base word and placement, and the word of every item that differs."""

    base: Placement
    base_word: Word
    words: Mapping[str, Word]
    placements: Mapping[str, Placement]


def spell(plan: Plan, graph: Graph, binding: Binding, vocabulary: Vocabulary) -> Spelling:
    """Return the words that say a plan; raise InexpressiblePlan with the nearest plan that can be said."""
    plan.check(graph)
    choice = _Choice(plan, graph, binding, vocabulary)
    wrong = choice.wrong()
    if wrong:
        nearest = choice.nearest()
        shown = ", ".join(f"'{name}' ({plan.placement(name)})" for name in list(wrong)[:_SHOWN_NODES])
        more = f" and {len(wrong) - _SHOWN_NODES} more" if len(wrong) > _SHOWN_NODES else ""
        reason = next(iter(wrong.values()))
        changed = sum(nearest.placement(node.name) != plan.placement(node.name) for node in graph.nodes)
        raise InexpressiblePlan(
            f"the format cannot say where {shown}{more} go: {reason}.",
            nodes=tuple(wrong),
            nearest=nearest.to_json(),
            hint=f"The nearest plan that it can say moves {changed} nodes.",
        )
    return choice.spelling()


def nearest_plan(plan: Plan, graph: Graph, binding: Binding, vocabulary: Vocabulary) -> Plan:
    """Return the plan nearest to this one that a format can say.

    Nodes get at least the precision that they have, or the most that the format has.
    """
    plan.check(graph)
    choice = _Choice(plan, graph, binding, vocabulary)
    return choice.nearest() if choice.wrong() else plan


class _Choice:
    """Choose the base placement and one placement for every word."""

    def __init__(self, plan: Plan, graph: Graph, binding: Binding, vocabulary: Vocabulary) -> None:
        self._plan, self._graph, self._binding, self._vocabulary = plan, graph, binding, vocabulary
        self._counts = Counter(plan.placement(node.name) for node in graph.nodes)
        self.base, self.base_word = self._choose_base()
        others = (placement.target for placement in self._counts if placement.target != HOST)
        self.npu = self.base.target if self.base.target != HOST else next(others, HOST)
        self.taken: dict[str, Placement] = {}
        # The placement that keeps most takes a word first: the others can then only gain.
        for placement in sorted(self._counts, key=self._rank, reverse=True):
            if placement != self.base:
                for word in self._words(placement):
                    if word.text not in self.taken:
                        self.taken[word.text] = placement
                        break

    def _choose_base(self) -> tuple[Placement, Word]:
        # What the file is for is the NPU: it decides the base whenever something of the plan fits. The plan's default
        # comes first: the toolchain runs at it, and a base that changed with the majority would turn the file over.
        common = [placement for placement, _ in self._counts.most_common()]
        default = self._plan.default
        for placement in sorted((default, *common), key=lambda item: (item.target == HOST, item != default)):
            for word in self._vocabulary.base:
                if word.takes(placement):
                    return placement, word
        word = self._vocabulary.base[0]
        target = next((p.target for p in self._counts if p.target != HOST), default.target)
        wanted = HOST if word.side is Side.CPU else target
        return Placement(wanted, word.precisions[0]), word

    def _words(self, placement: Placement) -> list[Word]:
        if placement.target not in (HOST, self.npu):
            return []
        return [word for word in self._vocabulary.exceptions if word.takes(placement)]

    def word_of(self, placement: Placement) -> Word | None:
        """Return the word that stands for a placement in this file, or None."""
        if placement == self.base:
            return self.base_word
        for word in self._vocabulary.exceptions:
            if self.taken.get(word.text) == placement and word.takes(placement):
                return word
        return None

    def wrong(self) -> dict[str, str]:
        """Return the nodes that cannot be said, with the reason."""
        reasons: dict[str, str] = {}
        for node in self._graph.nodes:
            placement = self._plan.placement(node.name)
            if self.word_of(placement) is None:
                reasons[node.name] = f"it has no word for {placement} beside {self.base}"
            elif placement != self.base and node.name not in self._binding.covered:
                reasons[node.name] = "the toolchain's listing has nothing that stands for it"
        for item, nodes in self._binding.nodes_of.items():
            if len({self._plan.placement(name) for name in nodes}) > 1:
                reason = f"'{item}' stands for {len(nodes)} nodes with different placements"
                reasons.update({name: reasons.get(name, reason) for name in nodes})
            elif nodes and not self._has(item, self._plan.placement(nodes[0])):
                reason = f"the toolchain has no {self._plan.placement(nodes[0]).precision.value} for '{item}'"
                reasons.update({name: reasons.get(name, reason) for name in nodes})
        for pack in self._binding.together:
            if self._mixed(pack, self._plan.placement) is not None:
                reasons.update({name: reasons.get(name, pack.reason) for name in pack.nodes})
        return reasons

    def _mixed(self, item: Together, placed: Callable[[str], Placement]) -> Placement | None:
        """Return where those are that have the word, where others of the nodes have it not."""
        places = [placed(name) for name in item.nodes]
        having = [one for one in places if self._says(one, item.word)]
        binds = not item.source or self._says(placed(item.source), item.word)
        return having[0] if binds and having and len(having) < len(places) else None

    def _says(self, placement: Placement, text: str) -> bool:
        word = self.word_of(placement)
        return word is not None and word.text == text

    def _has(self, item: str, placement: Placement) -> bool:
        """Tell whether the toolchain has the word of a placement for an item; words that nobody has are not asked."""
        word = self.word_of(placement)
        return word is None or word.text not in self._binding.lacks.get(item, ())

    def _surely_has(self, item: str, placement: Placement) -> bool:
        word = self.word_of(placement)
        return word is None or word.text not in self._missing(item)

    def _missing(self, item: str) -> frozenset[str]:
        """Return the words that the toolchain has not for an item, or may not obey."""
        binding = self._binding
        return binding.lacks.get(item, frozenset()) | binding.doubts.get(item, frozenset())

    def _had(self, item: str, placement: Placement) -> Placement:
        """Return the nearest placement above one that the toolchain surely has for an item."""
        lacks, rank = self._missing(item), self._rank(placement)
        for word in self._vocabulary.exceptions:
            if word.text not in lacks and word.text not in self.taken:
                enough = [one for one in self._meanings(word) if self._rank(one) >= rank]
                if enough:
                    self.taken[word.text] = min(enough, key=self._rank)
        options = [one for one in self.taken.values() if self._rank(one) >= rank and self._surely_has(item, one)]
        return min(options, key=self._rank, default=placement)

    def nearest(self) -> Plan:
        """Return the nearest plan that can be said, and that the toolchain surely obeys as far as that is known."""
        raised = {one: self._raise(one) for one in sorted(self._counts, key=self._rank, reverse=True)}
        placed = {node.name: raised[self._plan.placement(node.name)] for node in self._graph.nodes}
        for name in placed:
            if name not in self._binding.covered:
                placed[name] = self.base
        while True:
            # Items may share nodes, so that one raise can make another item mixed.
            changed = False
            for item, nodes in self._binding.nodes_of.items():
                best = max((placed[name] for name in nodes), key=self._rank, default=self.base)
                if nodes and not self._surely_has(item, best):
                    best = self._had(item, best)
                for name in nodes:
                    changed |= placed[name] != best
                    placed[name] = best
            for pack in self._binding.together:
                shared = self._mixed(pack, placed.__getitem__)
                if shared is not None:
                    changed = True
                    placed.update(dict.fromkeys(pack.nodes, shared))
            for alike in self._binding.alike:
                best = max((placed[name] for name in alike), key=self._rank)
                changed |= any(placed[name] != best for name in alike)
                placed.update(dict.fromkeys(alike, best))
            if not changed:
                break
        overrides = {}
        for name, placement in placed.items():
            if placement != self.base:
                same = placement == self._plan.placement(name)
                reason = self._plan.reason(name) if same else "nearest placement that the format can say"
                overrides[name] = Override(placement, reason)
        return Plan(self._plan.graph_digest, self.base, overrides, self._plan.repairs)

    def _meanings(self, word: Word) -> list[Placement]:
        """Return where a word can put a node; what is left in float by a word for either side runs on any CPU."""
        if word.side is Side.EITHER and not any(precision.is_quantized for precision in word.precisions):
            return [Placement(HOST, Precision.FP32)]
        return [Placement(HOST if word.side is Side.CPU else self.npu, precision) for precision in word.precisions]

    def _rank(self, placement: Placement) -> tuple[int, int]:
        return _ORDER.index(placement.precision), int(placement.target == HOST)

    def _raise(self, placement: Placement) -> Placement:
        if self.word_of(placement) is not None:
            return placement
        options = [self.base, *self.taken.values()]
        for word in self._vocabulary.exceptions:
            if word.text not in self.taken:
                options += self._meanings(word)
        rank = _ORDER.index(placement.precision)
        enough = [option for option in options if _ORDER.index(option.precision) >= rank]
        if not enough:
            return max(options, key=self._rank)
        best = min(enough, key=lambda option: (self._rank(option)[0], option.target != placement.target))
        for word in self._vocabulary.exceptions:
            if best not in self.taken.values() and best != self.base and word.takes(best):
                self.taken.setdefault(word.text, best)
        return best

    def spelling(self) -> Spelling:
        """Return the words of the items."""
        words: dict[str, Word] = {}
        placements: dict[str, Placement] = {}
        for item, nodes in self._binding.nodes_of.items():
            if nodes:
                placement = self._plan.placement(nodes[0])
                word = self.word_of(placement)
                if word is not None and placement != self.base:
                    words[item], placements[item] = word, placement
        for item, nodes in self._binding.readers.items():
            placement = max((self._plan.placement(name) for name in nodes), key=self._rank, default=self.base)
            word = self.word_of(placement)
            if word is not None and placement != self.base:
                words[item], placements[item] = word, placement
        return Spelling(self.base, self.base_word, words, placements)


def read_plan(graph: Graph, binding: Binding, base: Placement, placed: Mapping[str, Override]) -> Plan:
    """Return the plan in which the nodes of some items go elsewhere; of two items of one node the more precise wins."""
    overrides: dict[str, Override] = {}
    for item, override in placed.items():
        for name in binding.nodes_of[item]:
            other = overrides.get(name)
            if other is None or _keeps(override.placement) > _keeps(other.placement):
                overrides[name] = override
    kept = {name: override for name, override in overrides.items() if override.placement != base}
    ordered = {node.name: kept[node.name] for node in graph.nodes if node.name in kept}
    return Plan(graph.digest, base, ordered)


def _keeps(placement: Placement) -> tuple[int, bool]:
    return _ORDER.index(placement.precision), placement.target == HOST
