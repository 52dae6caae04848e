"""Print how far the simulators agree with the reference, operator by operator.

Run `python benchmarks/numerics_table.py [--fast] [operator ...]`: every case at every precision that a target
supports; the share of equal outputs and the largest difference in steps. `--fast` compares the fast simulation with the
exact one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.backend.protocols import CompileOptions, Fidelity
from dovetail.backend.target import Target
from dovetail.backends.npusim import backend as simulator
from dovetail.backends.reference import backend as reference
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.compare.steps import Steps
from dovetail.errors import DovetailError
from dovetail.ir.precision import Precision
from dovetail.testing.agreement import agreement, load_on
from dovetail.testing.cases import CASES, quantized
from dovetail.testing.operator_case import OperatorCase


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    case: str
    precision: Precision
    target: str
    result: Steps | str


def rows(names: list[str], fast: bool) -> Iterator[Row]:
    """Yield a row for every supported combination of case, precision and target."""
    for case in CASES:
        if names and case.op not in names and case.name not in names:
            continue
        for precision in Precision:
            for target in VSI_PROFILES:
                row = compare(case, precision, target, fast)
                if row is not None:
                    yield row


def compare(case: OperatorCase, precision: Precision, target: Target, fast: bool) -> Row | None:
    """Return the row of one combination, or None where the target refuses it."""
    if precision not in target.precisions:
        return None
    found = quantized(case, precision)
    if not target.verdict(found.graph, found.graph.nodes[0], precision).supported:
        return None
    exact = load_on(simulator, found.graph, target, CompileOptions(Fidelity.EXACT))
    try:
        if fast:
            other = load_on(simulator, found.graph, target, CompileOptions(Fidelity.FAST))
        else:
            other = load_on(reference, found.graph, target, CompileOptions())
        return Row(case.name, precision, target.name, agreement(exact, other, found.inputs))
    except DovetailError as error:
        return Row(case.name, precision, target.name, str(error))


def totals(found: list[Row]) -> list[tuple[str, Steps]]:
    """Return the agreement over all integer rows and over all float rows."""
    sums = {"integers": Steps(), "floats": Steps()}
    for row in found:
        if isinstance(row.result, Steps):
            sums["integers" if row.precision.is_quantized else "floats"] += row.result
    return list(sums.items())


def as_json(found: list[Row]) -> str:
    """Return the rows as JSON text."""
    document = [
        {
            "case": row.case,
            "precision": row.precision.value,
            "target": row.target,
            **(
                {"error": row.result}
                if isinstance(row.result, str)
                else {
                    "elements": row.result.elements,
                    "equal": row.result.elements - row.result.differing,
                    "largest": row.result.largest,
                }
            ),
        }
        for row in found
    ]
    return json.dumps(document, indent=1)


def print_table(found: list[Row], differing: bool) -> None:
    """Print the rows and the totals."""
    print(f"{'case':24} {'precision':9} {'target':11} {'elements':>8} {'equal %':>9} {'max steps':>9}")
    for row in found:
        head = f"{row.case:24} {row.precision.value:9} {row.target:11}"
        if isinstance(row.result, str):
            print(head, row.result)
        elif not differing or row.result.differing:
            print(f"{head} {row.result.elements:8} {100 * row.result.share:9.4f} {row.result.largest:9}")
    for name, total in totals(found):
        print(f"{'all ' + name:46} {total.elements:8} {100 * total.share:9.4f} {total.largest:9}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("operators", nargs="*", help="operators or cases; all when none is given")
    parser.add_argument("--fast", action="store_true", help="compare the fast simulation with the exact one")
    parser.add_argument("--differing", action="store_true", help="print only rows that differ")
    parser.add_argument("--json", action="store_true", help="print JSON")
    choices = parser.parse_args()
    found = list(rows(choices.operators, choices.fast))
    if choices.json:
        print(as_json(found))
    else:
        print_table(found, choices.differing)


if __name__ == "__main__":
    main()
