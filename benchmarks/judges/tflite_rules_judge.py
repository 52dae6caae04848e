"""Compare TFLite's own rules in the reference with LiteRT's reference kernels, operator by operator."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from dovetail.backend.arithmetic import TFLITE
from dovetail.backends.reference import run_graph
from dovetail.importers.tflite import load_tflite
from dovetail.ir import AnyArray
from judges.tflite_cases import LiteCase
from judges.tflite_hybrid_cases import convolutions, products
from judges.tflite_integer_cases import integer_cases
from judges.tflite_lstm_cases import lstm_cases
from judges.trial import Score

JUDGE = "tflite-rules"
ELEMENTS = 20_000
"""How many output elements of a case are compared at least."""


def rules_scores() -> Iterator[Score]:
    """Yield the share of equal integers of every case."""
    for case in (*integer_cases(), *lstm_cases(), *convolutions(), *products()):
        yield rules_score(case)


def rules_score(case: LiteCase, wanted: int = ELEMENTS) -> Score:
    """Return the share of equal integers of a case: reals that it gives count as equal within a millionth."""
    graph = load_tflite(case.operator.to_bytes())
    size = max(1, int(np.prod(case.operator.output.shape)))
    feeds = [*case.feeds, *_more(case, -(-wanted // size) - len(case.feeds))]
    elements = equal = worst = 0
    for feed, expected in zip(feeds, case.operator.run_all(feeds), strict=True):
        found = run_graph(graph, dict(zip(graph.inputs, feed, strict=True)), TFLITE)[graph.outputs[0]]
        want = expected[0]
        if want.dtype.kind == "f":
            steps = (~np.isclose(found, want, rtol=1e-6, atol=0)).astype(np.int64)
        else:
            steps = np.abs(found.astype(np.int64) - want.astype(np.int64))
        elements += steps.size
        equal += int((steps == 0).sum())
        worst = max(worst, int(steps.max(initial=0)))
    return Score(JUDGE, case.label, elements, equal, worst)


def _more(case: LiteCase, count: int) -> Iterator[tuple[AnyArray, ...]]:
    generator = np.random.default_rng(zlib.crc32(case.label.encode()) + 1)
    for _ in range(count):
        yield tuple(_alike(generator, value) for value in case.feeds[0])


def _alike(generator: np.random.Generator, value: AnyArray) -> AnyArray:
    if value.dtype.kind == "f":
        return np.asarray(generator.uniform(-2.0, 2.0, value.shape)).astype(value.dtype)
    limits = np.iinfo(value.dtype)
    return generator.integers(limits.min, limits.max + 1, value.shape).astype(value.dtype)
