"""Sound and other signals: waves, spectra, masks of spectra, and what is rebuilt of the input."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts, words
from dovetail.outputs.layouts import SignalLayout
from dovetail.outputs.view import Kind, OutputRole


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the ways in which an output is a signal of the kind that goes in."""
    if ends.image is not None:
        return
    for end in ends.outputs:
        if not end.integer and end.rank >= 1:
            yield _signal(ends, end)


def _signal(ends: Ends, end: End) -> Hypothesis:
    case = Case()
    same = [
        name for name, shape in ends.inputs.items() if _plain(shape) == _plain(end.shape) and len(_plain(shape)) > 0
    ]
    case.when(bool(same), STRONG, f"'{end.name}' is shaped as the input '{same[0] if same else ''}'")
    rebuilt = len(ends.inputs) == len(ends.outputs) == 1 and bool(same) and len(_plain(end.shape)) == 1
    case.when(rebuilt and end.tail.activations == {""}, FAIR, "as many numbers come out as go in, without a bound")
    longest = max((max(shape, default=1) for shape in ends.inputs.values()), default=1)
    length = max(end.shape, default=1)
    wave = longest >= 200 and not same and length >= 200 and _related(length, longest)
    case.when(wave, STRONG, f"{length} steps are a share or a multiple of the input's {longest}")
    bounded = end.tail.activations <= {"Sigmoid", "HardSigmoid"}
    case.when(bounded and bool(same), STRONG, f"'{end.name}' is a Sigmoid shaped as the input, as masks are")
    case.when(end.tail.activations == {"Tanh"}, FAIR, f"'{end.name}' ends in a Tanh")
    case.when(words.named(end, (*words.SIGNAL, "mask", "masks")), STRONG, f"'{end.name}' is named as signals are")
    spectrum = any(size in counts.BANDS for size in end.shape) and len(_plain(end.shape)) == 2
    case.when(spectrum and not same, SLIGHT, "one side has a usual number of bands")
    case.when(end.tail.activations <= {"Softmax"}, -DECISIVE, f"'{end.name}' ends in a Softmax")
    case.when(length < 16, -DECISIVE, f"{length} numbers are no signal")
    layout = SignalLayout(end.name, mask=bounded)
    return Hypothesis.of(case, Kind.SIGNAL, "mask" if bounded else "signal", {end.name: OutputRole.SIGNAL}, layout)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without sizes of 1."""
    return tuple(size for size in shape if size != 1)


def _related(length: int, longest: int) -> bool:
    """Tell whether one of two lengths is a small whole multiple of the other, up to a frame's padding."""
    large, small = max(length, longest), min(length, longest)
    ratio = round(large / small)
    return ratio <= 8 and abs(large - ratio * small) <= 0.05 * large
