"""ONNX's own operator tests, imported, exported and run; the expected outputs are ONNX's."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import onnx
import onnxruntime
import pytest

PASSING, BOUND = 1459, 20
MEASURED_WITH = ("1.23.2", "1.31.1")


def _benchmark() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "onnx_node_tests.py"
    spec = importlib.util.spec_from_file_location("onnx_node_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_node_tests_pass_or_are_refused_with_a_reason() -> None:
    results = _benchmark().run_cases()
    counts = Counter(result.outcome.value for result in results)
    crashes = [f"{result.name}: {result.reason}" for result in results if result.outcome.value == "crash"]
    assert crashes == []
    assert all(result.reason and "\n" not in result.reason for result in results if result.outcome.value == "refused")
    # What runs in the original model runs in ours; the one difference is rounding inside a float16 attention.
    worse = [result.name for result in results if result.outcome.value in ("runtime", "mismatch")]
    if (onnx.__version__, onnxruntime.__version__) == MEASURED_WITH:
        assert worse == ["test_attention_4d_causal_fp16_expanded"]
        assert counts["pass"] >= PASSING
        assert counts["pass (bound)"] >= BOUND
    assert counts["pass"] >= 0.7 * len(results)
