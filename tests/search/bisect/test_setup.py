"""What the names of lines say before anything was measured."""

from __future__ import annotations

import pytest

from dovetail.plan import parse_placement
from dovetail.search.bisect.setup import BisectRequest, setup_of_lines

_REQUEST = BisectRequest("candidate.txt", "lines", parse_placement("vsi:v853@i8pc"), (parse_placement("cpu@fp32"),))


@pytest.mark.parametrize(
    ("suspect", "plain", "harmless"),
    [
        ("/model.22/Concat_3", "/model.22/cv2/Conv", "/model.22/act/Relu"),
        ("head/concat", "head/box", "head/reshape"),
        ("LayerNormalization_1", "MatMul_12", "MaxPool_7"),
        ("b1/dw", "b1/project", "b1/dw_relu"),
    ],
)
def test_names_that_say_an_operator_weigh_as_it_does(suspect: str, plain: str, harmless: str) -> None:
    first, second, third = setup_of_lines([suspect, plain, harmless], _REQUEST).weights
    assert first > second > third > 0
