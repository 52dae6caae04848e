"""What is recognised of generated heads of published designs, with random weights on random inputs."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.compare.decisions import see_outputs
from dovetail.data.specs import specs_of
from dovetail.outputs.hints import hints_line, read_hints
from dovetail.outputs.view import Kind
from dovetail.passes import normalize
from dovetail.testing.heads import detectors
from dovetail.testing.heads.net import HeadFamily
from dovetail.testing.heads.sets import SETS
from dovetail.testing.heads.trial import HeadAnswer, answers

_LEFT = {"blend shapes", "FSMN-VAD", "CRAFT", "PSENet", "PoseNet, cameras", "MDX-Net", "ETH-XGaze"}
"""Designs that shapes, tails and random values do not tell from others: taken for something else, and asked about."""
_MADE_WITH = [family for item in SETS if item.first is None for family in item.families]
_MADE_AFTER = [family for item in SETS if item.first is not None for family in item.families]


@pytest.mark.parametrize("family", _MADE_WITH, ids=lambda family: family.name)
def test_designs_that_the_recogniser_was_made_with(family: HeadFamily) -> None:
    (answer,) = answers([family], [int(np.random.default_rng(len(family.name)).integers(3))])
    assert answer.right
    assert not answer.wrong_and_sure


@pytest.mark.parametrize("family", _MADE_AFTER, ids=lambda family: family.name)
def test_designs_that_were_made_after_it(family: HeadFamily) -> None:
    (answer,) = answers([family], [0])
    assert answer.right is (family.name not in _LEFT)
    assert not answer.wrong_and_sure
    if not answer.view.sure:
        assert_the_guess_can_be_said(answer)


def assert_the_guess_can_be_said(answer: HeadAnswer) -> None:
    """Check that the line to copy says of the outputs what it shows, and is then taken; none is empty by mistake."""
    line = hints_line(answer.view)
    if not line:
        assert all(head.kind is Kind.UNKNOWN for head in answer.view.decisions)
        return
    graph = normalize(answer.head.graph)
    rng = np.random.default_rng(answer.seed)
    shapes = {spec.name: [size or 1 for size in spec.shape] for spec in specs_of(graph)}
    feeds = [{name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}]
    # Bare values are said only where there is nothing else.
    surest = max(answer.view.decisions, key=lambda head: (head.kind is not Kind.REGRESSION, head.confidence))
    said = see_outputs(graph, feeds, read_hints(line), threads=1).view
    assert said.sure
    assert surest.kind in {head.kind for head in said.decisions}
    others = {name for head in said.decisions if head.kind is not surest.kind for name in head.roles}
    assert others.isdisjoint(surest.roles)


def test_names_are_evidence_and_not_needed() -> None:
    """Most heads are recognised by shapes and tails alone; none is taken for something else with confidence."""
    found = list(answers([family for family in detectors.FAMILIES if family.name != "YOLOX"], [1], names=False))
    assert sum(answer.right for answer in found) >= len(found) - 2
    assert not any(answer.wrong_and_sure for answer in found)
