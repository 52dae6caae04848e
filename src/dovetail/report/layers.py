"""Lay out a graph in layers: every unit below all that it reads, with few crossings and short edges.

Layers are longest paths; long edges get a bend in every layer that they pass (up to a length); the order within a
layer is that of the mean position of neighbours, swept down and up (Sugiyama, Tagawa and Toda, 1981); positions are the
nearest to the neighbours' means that keep the order and a distance, found by pooling adjacent violators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_SWEEPS = 6
_LONGEST = 24
"""Edges over more layers are drawn past the others, and do not order them."""
_BEND = 0.35
"""Width of a bend, in units."""


@dataclass(frozen=True, slots=True)
class LayeredLayout:
    """Where units stand; positions count in widths of a unit, 0 in the middle."""

    places: tuple[tuple[int, float], ...]
    """Layer and position of every unit."""
    routes: tuple[tuple[tuple[float, ...], ...], ...]
    """By unit and by what it reads: where the edge bends, in each layer that it passes, from above."""


def layer_units(inputs: Sequence[Sequence[int]]) -> LayeredLayout:
    """Return the layout of units; `inputs` are the units that each reads, all before it."""
    count = len(inputs)
    layer = [0] * count
    for unit, before in enumerate(inputs):
        layer[unit] = 1 + max((layer[item] for item in before), default=-1)
    up: list[list[int]] = [[] for _ in range(count)]
    layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for unit in range(count):
        layers[layer[unit]].append(unit)
    widths = [1.0] * count
    bends: list[list[list[int]]] = []
    for unit, before in enumerate(inputs):
        bends.append([])
        for source in before:
            near = layer[unit] - layer[source] <= _LONGEST
            passed = range(layer[source] + 1, layer[unit]) if near else range(0)
            chain = list(range(len(widths), len(widths) + len(passed)))
            for level, bend in zip(passed, chain, strict=True):
                widths.append(_BEND)
                up.append([source if bend == chain[0] else bend - 1])
                layers[level].append(bend)
            if near:
                up[unit].append(chain[-1] if chain else source)
            bends[unit].append(chain)
    places = _positions(layers, up, widths)
    return LayeredLayout(
        tuple((layer[unit], places[unit]) for unit in range(count)),
        tuple(tuple(tuple(places[bend] for bend in chain) for chain in chains) for chains in bends),
    )


def _positions(layers: list[list[int]], up: list[list[int]], widths: list[float]) -> list[float]:
    down: list[list[int]] = [[] for _ in widths]
    for item, before in enumerate(up):
        for source in before:
            down[source].append(item)
    places = [0.0] * len(widths)
    for items in layers:
        _spread(items, widths, places, [0.0] * len(items))
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        near = up if downwards else down
        for items in layers if downwards else reversed(layers):
            wished = {item: _mean(near[item], places) for item in items}
            items.sort(key=lambda item: (wished[item], places[item]) if near[item] else (places[item], places[item]))
            _spread(items, widths, places, [wished[item] if near[item] else places[item] for item in items])
    for items in layers:
        both = [up[item] + down[item] for item in items]
        wishes = [_mean(near, places) if near else places[item] for item, near in zip(items, both, strict=True)]
        _spread(items, widths, places, wishes)
    return places


def _mean(items: Sequence[int], places: Sequence[float]) -> float:
    return sum(places[item] for item in items) / len(items) if items else 0.0


def _spread(items: Sequence[int], widths: Sequence[float], places: list[float], wished: Sequence[float]) -> None:
    """Put the items of a layer, in their order, as near to wished places as their widths let them (least squares)."""
    offsets: list[float] = []
    at = 0.0
    for index, item in enumerate(items):
        at += 0.0 if index == 0 else (widths[items[index - 1]] + widths[item]) / 2
        offsets.append(at)
    blocks: list[list[float]] = []  # Sum of wishes and count of items, means ascending.
    for wish, offset in zip(wished, offsets, strict=True):
        total, number = wish - offset, 1.0
        while blocks and blocks[-1][0] / blocks[-1][1] > total / number:
            before = blocks.pop()
            total, number = total + before[0], number + before[1]
        blocks.append([total, number])
    index = 0
    for total, number in blocks:
        for _ in range(int(number)):
            places[items[index]] = total / number + offsets[index]
            index += 1
