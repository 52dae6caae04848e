"""Sound and other signals: waves, spectra, masks of spectra, and what is rebuilt of the input."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.layouts import SignalLayout, VectorLayout
from dovetail.outputs.view import Kind, OutputRole


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which an output is a signal of the kind that goes in."""
    if ends.image is not None:
        return
    for end in ends.outputs:
        if not end.integer and end.rank >= 1:
            yield _signal(ends, end)
            yield from _series(ends, end)


def _signal(ends: Ends, end: End) -> Hypothesis:
    case = Case()
    same = [
        name for name, shape in ends.inputs.items() if _plain(shape) == _plain(end.shape) and len(_plain(shape)) > 0
    ]
    case.when(bool(same), STRONG, f"'{end.name}' is shaped as the input '{same[0] if same else ''}'")
    rebuilt = len(ends.outputs) == 1 and bool(same) and len(_plain(end.shape)) == 1
    case.when(rebuilt and end.tail.activations == {""}, FAIR, "as many numbers come out as go in, without a bound")
    longest = max((max(shape, default=1) for shape in ends.inputs.values()), default=1)
    length = max(end.shape, default=1)
    wave = longest >= 200 and not same and length >= 200 and _related(length, longest)
    case.when(wave, STRONG, f"{length} steps are a share or a multiple of the input's {longest}")
    bounded = end.tail.activations <= {"Sigmoid", "HardSigmoid"}
    case.when(bounded and bool(same), STRONG, f"'{end.name}' is a Sigmoid shaped as the input, as masks are")
    case.when(end.tail.activations == {"Tanh"}, FAIR, f"'{end.name}' ends in a Tanh")
    case.when(words.named(end, (*words.SIGNAL, "mask", "masks")), STRONG, f"'{end.name}' is named as signals are")
    gains = bounded and len(_plain(end.shape)) == 1 and length in counts.BANDS and len(ends.inputs) > 1
    spectrum = any(size in counts.BANDS for size in end.shape) and len(_plain(end.shape)) == 2
    case.when(spectrum and not same, SLIGHT, "one side has a usual number of bands")
    case.when(end.tail.activations <= {"Softmax", "LogSoftmax"}, -DECISIVE, f"'{end.name}' ends in a Softmax")
    case.when(gains, FAIR, f"'{end.name}' is a Sigmoid of a usual number of bands")
    case.when(length < 16, -DECISIVE, f"{length} numbers are no signal")
    layout = SignalLayout(end.name, mask=bounded)
    return Hypothesis.of(case, Kind.SIGNAL, "mask" if bounded else "signal", {end.name: OutputRole.SIGNAL}, layout)


def _series(ends: Ends, end: End) -> Iterator[Hypothesis]:
    """Yield the continuation of a series: as many quantities as go in, at other times."""
    sources = [shape for shape in map(_plain, ends.inputs.values()) if len(shape) == 2]
    found = _plain(end.shape)
    if len(ends.inputs) != 1 or len(found) != 2 or not sources or sources[0][1] != found[1]:
        return
    case = Case()
    case.add(STRONG, f"'{end.name}' has {found[1]} numbers a step, as many as go in")
    case.when(found[0] != sources[0][0], FAIR, f"{found[0]} steps come out of {sources[0][0]}")
    case.when(found[1] in counts.BANDS, -STRONG, f"{found[1]} is a usual number of bands")
    case.when(end.tail.activations == {""}, FAIR, f"'{end.name}' has no bound")
    case.when(end.tail.activations <= {"Softmax", "LogSoftmax"}, -DECISIVE, f"'{end.name}' ends in a Softmax")
    layout = VectorLayout(end.name, found[0] * found[1])
    yield Hypothesis.of(case, Kind.REGRESSION, "series", {end.name: OutputRole.VALUES}, layout)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without sizes of 1."""
    return tuple(size for size in shape if size != 1)


def _related(length: int, longest: int) -> bool:
    """Tell whether one of two lengths is a small whole multiple of the other, up to a frame's padding."""
    large, small = max(length, longest), min(length, longest)
    ratio = round(large / small)
    return ratio <= 8 and abs(large - ratio * small) <= 0.05 * large
