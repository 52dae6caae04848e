"""Detectors of masks without boxes: classes and kernels on several grids, and features that kernels go over (SOLO)."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.outputs.ends import End, Ends
from dovetail.outputs.evidence import DECISIVE, FAIR, SLIGHT, STRONG, Case, Hypothesis
from dovetail.outputs.families import counts
from dovetail.outputs.view import Kind, OutputRole

_FEWEST_GRIDS = 3


def hypotheses(ends: Ends) -> Iterator[Hypothesis]:
    """Yield the readings in which the same pair of outputs comes on several grids, and one output goes with one."""
    grids: dict[tuple[int, int], list[End]] = {}
    for end in ends.outputs:
        if end.rank == 3 and not end.ragged and not end.integer:
            grids.setdefault((end.shape[1], end.shape[2]), []).append(end)
    pairs = [sorted(found, key=lambda end: end.shape[0]) for found in grids.values() if len(found) == 2]
    alone = [found[0] for found in grids.values() if len(found) == 1]
    if ends.image is None or len(pairs) < _FEWEST_GRIDS or len({_channels(pair) for pair in pairs}) != 1:
        return
    for kernel in (0, 1):
        for features in alone:
            if features.shape[0] == pairs[0][kernel].shape[0]:
                yield _reading(pairs, kernel, features)


def _channels(pair: list[End]) -> tuple[int, ...]:
    return tuple(end.shape[0] for end in pair)


def _reading(pairs: list[list[End]], kernel: int, features: End) -> Hypothesis:
    scores = [pair[1 - kernel] for pair in pairs]
    case = Case()
    case.add(DECISIVE, f"the same two outputs on {len(pairs)} grids")
    case.add(STRONG, f"'{features.name}' has as many channels as one of them")
    case.when(scores[0].shape[0] in counts.OBJECTS, SLIGHT, f"{scores[0].shape[0]} classes, a usual number")
    case.when(scores[0].tail.activations == {"Sigmoid"}, FAIR, f"'{scores[0].name}' ends in a Sigmoid")
    roles = {end.name: OutputRole.SCORES for end in scores}
    roles.update({pair[kernel].name: OutputRole.COEFFICIENTS for pair in pairs})
    roles[features.name] = OutputRole.PROTOTYPES
    return Hypothesis.of(case, Kind.DETECTION, "solo", roles)
