"""What is recognised of generated heads of published designs, with random weights on random inputs."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.testing.heads import detectors, others, published_detectors, published_maps, published_vectors
from dovetail.testing.heads.net import HeadFamily
from dovetail.testing.heads.trial import answers

_PUBLISHED = (*published_detectors.FAMILIES, *published_maps.FAMILIES, *published_vectors.FAMILIES)


@pytest.mark.parametrize("family", [*detectors.FAMILIES, *others.FAMILIES], ids=lambda family: family.name)
def test_designs_that_the_recogniser_was_made_with(family: HeadFamily) -> None:
    (answer,) = answers([family], [int(np.random.default_rng(len(family.name)).integers(3))])
    assert answer.right
    assert not answer.wrong_and_sure


@pytest.mark.parametrize("family", _PUBLISHED, ids=lambda family: family.name)
def test_designs_that_were_made_after_it(family: HeadFamily) -> None:
    (answer,) = answers([family], [0])
    assert answer.right
    assert not answer.wrong_and_sure


def test_names_are_evidence_and_not_needed() -> None:
    """Most heads are recognised by shapes and tails alone; none is taken for something else with confidence."""
    found = list(answers([family for family in detectors.FAMILIES if family.name != "YOLOX"], [1], names=False))
    assert sum(answer.right for answer in found) >= len(found) - 2
    assert not any(answer.wrong_and_sure for answer in found)
