"""ONNX's own operator tests: what a case gave, and the command that prints a table of them."""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import numpy as np
from onnx.backend.test.case.node import collect_testcases

Kind = TypeVar("Kind", bound=Enum)


@dataclass(frozen=True)
class CaseResult(Generic[Kind]):
    """Hold the outcome of one case."""

    name: str
    operator: str
    outcome: Kind
    reason: str = ""


def run_each(run: Callable[[Any], CaseResult[Kind]], wanted: Callable[[Any], bool]) -> list[CaseResult[Kind]]:
    """Run every wanted case of ONNX's tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    with np.errstate(all="ignore"):
        return [run(case) for case in cases if wanted(case)]


def count_outcomes(results: Sequence[CaseResult[Kind]], kinds: type[Kind]) -> dict[str, int]:
    """Return how many cases ended in each way."""
    counts = Counter(result.outcome for result in results)
    return {str(kind.value): counts[kind] for kind in kinds}


def tally(results: Sequence[CaseResult[Kind]], kinds: type[Kind]) -> str:
    """Return the line below a table."""
    return "; ".join(f"{name}: {count}" for name, count in count_outcomes(results, kinds).items())


@dataclass(frozen=True, slots=True)
class Report(Generic[Kind]):
    """Say how results are run and shown: `run` takes an operator or None, `failed` picks what --failures lists."""

    about: str
    kinds: type[Kind]
    run: Callable[[str | None], Sequence[CaseResult[Kind]]]
    table: Callable[[Sequence[CaseResult[Kind]]], Iterator[str]]
    failed: Callable[[CaseResult[Kind]], bool]

    def main(self) -> None:
        """Print the table, or everything as JSON."""
        parser = argparse.ArgumentParser(description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--failures", action="store_true", help="list every case that failed")
        parser.add_argument("--operator")
        arguments = parser.parse_args()
        results = self.run(arguments.operator)
        if arguments.json:
            rows = [asdict(result) | {"outcome": result.outcome.value} for result in results]
            print(json.dumps({"counts": count_outcomes(results, self.kinds), "cases": rows}, indent=1))
        elif arguments.failures:
            for result in filter(self.failed, results):
                print(f"{result.name}: {result.outcome.value}: {result.reason}")
        else:
            print("\n".join(self.table(results)))
