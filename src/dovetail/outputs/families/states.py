"""States: outputs that go back in at the next call."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.families import words

_MARKS = re.compile(r"(_?(in|out|input|output|next|new|prev|n|o|i)\b|_?\d+$|[^a-z]+)")


def fed_back(ends: Ends) -> Mapping[str, str]:
    """Return the outputs that go back into an input of the same shape.

    Where names tell nothing, an input that is shaped as one output only is taken for its state.

    The input that brings the data is none of them: of several inputs the first, as exporters keep it first, unless its
    name says that it is a state.
    """
    inputs = list(ends.inputs)
    if len(inputs) < 2 or len(ends.outputs) < 2:
        return {}
    named = [name for name in inputs if _is_state(name)]
    data = next((name for name in inputs if name not in named), inputs[0])
    free = [name for name in inputs if name != data]
    found: dict[str, str] = {}
    for end in ends.outputs:
        fitting = [name for name in free if _fits(ends, name, end)]
        best = max(fitting, key=lambda name: (_alike(name, end.name), -free.index(name)), default=None)
        if best is not None and (named_as_state(best, end.name) or _only(ends, best, end)):
            found[end.name] = best
            free.remove(best)
    return {**found, **_in_order(ends, data, free, found)}


def _in_order(ends: Ends, data: str, free: Sequence[str], found: Mapping[str, str]) -> dict[str, str]:
    """Return the outputs of one shape that come in the order of as many inputs of that shape, two at least.

    An input that is shaped as the data is may be more of it, and is left out.
    """
    pairs: dict[str, str] = {}
    for shape in {tuple(ends.inputs[name]) for name in free} - {tuple(ends.inputs[data])}:
        sources = [name for name in free if tuple(ends.inputs[name]) == shape]
        outputs = [end.name for end in ends.outputs if end.name not in found and _fits(ends, sources[0], end)]
        if len(sources) == len(outputs) > 1 and math.prod(shape) > 1:
            pairs.update(zip(outputs, sources, strict=True))
    return pairs


def named_as_state(source: str, output: str) -> bool:
    """Tell whether the names of an input and an output say that one goes back into the other."""
    return _alike(source, output) or _is_state(source) or _is_state(output)


def _only(ends: Ends, name: str, end: End) -> bool:
    """Tell whether an output is the only one shaped as an input, and the input the only one shaped as it."""
    outputs = [other for other in ends.outputs if _fits(ends, name, other)]
    inputs = [other for other in ends.inputs if _fits(ends, other, end)]
    return outputs == [end] and inputs == [name]


def _fits(ends: Ends, name: str, end: End) -> bool:
    shape = ends.inputs[name]
    whole = (1, *end.shape) if end.batched else end.shape
    # A list without a batch goes back in where names say so: there are many lists of one length.
    said = len(shape) == 1 and shape[0] > 1 and named_as_state(name, end.name)
    return tuple(shape) == tuple(whole) and (len(shape) >= 2 or said)


def _is_state(name: str) -> bool:
    return not set(re.findall(r"[a-z]+", name.lower())).isdisjoint(words.STATE)


def _alike(one: str, other: str) -> bool:
    """Tell whether two names are the same but for the marks of what goes in and what comes out."""
    first, second = _MARKS.sub("", one.lower()), _MARKS.sub("", other.lower())
    return bool(first) and bool(second) and (first == second or first in second or second in first)
