"""Write docs/reference/operators.md: what each operator was compared with, and how far it agrees.

    python docs/make_tables.py

Runs the table commands of benchmarks/ and puts their figures on one page.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "operators.md"


def figures(command: str) -> Any:
    """Return what a table command prints as JSON."""
    path = ROOT / "benchmarks" / f"{command}.py"
    done = subprocess.run([sys.executable, str(path), "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return [*lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]


def node_tests() -> list[str]:
    """Return the section on ONNX's own operator tests."""
    sides = {"cpu": figures("onnx_node_tests"), "reference": figures("reference_table")}
    counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: {side: [0, 0, 0] for side in sides})
    for side, found in sides.items():
        for case in found["cases"]:
            operator = case["operator"]
            cell = counts["(expanded functions)" if operator.startswith("expanded:") else operator][side]
            cell[0] += case["outcome"].startswith("pass")
            cell[1] += case["outcome"] in ("refused", "not imported")
            cell[2] += 1
    lines = [
        "## ONNX's own operator tests",
        "",
        "Every test is imported into the IR and run. Refused tests have a reason;",
    ]
    lines += ["the commands `benchmarks/onnx_node_tests.py` and `benchmarks/reference_table.py` print it.", ""]
    for side, found in sides.items():
        lines.append(f"- `{side}`: " + ", ".join(f"{count} {name}" for name, count in found["counts"].items() if count))
    lines.append("")
    rows = (
        (operator, *(f"{cell[side][0]} of {cell[side][2]}, {cell[side][1]} refused" for side in sides))
        for operator, cell in sorted(counts.items())
        if any(cell[side][0] for side in sides)
    )
    return lines + table(("operator", "cpu passes", "reference passes"), rows)


def integer_kernels() -> list[str]:
    """Return the section on other people's integer kernels."""
    judges = {"tflite-ref": "TFLite reference kernels", "onnxruntime": "ONNX Runtime"}
    targets = {"tflite-rules": "reference:tflite", "ort-rules": "reference:ort"}
    found = figures("integer_table")
    exact = (
        (judges[row["judge"]], row["label"], row["elements"], f"{row['share']:.4%}", row["max_lsb"])
        for row in found
        if row["judge"] in judges
    )
    lines = ["## Targets by the rules of a framework", ""]
    lines += ["`reference:tflite` beside LiteRT's reference kernels, `reference:ort` beside ONNX Runtime's integer"]
    lines += ["kernels: all cases together, then those that are not wholly equal. See [the rules](arithmetic.md).", ""]
    lines += table(("target", "case", "elements", "equal", "largest difference, LSB"), own_rules(found, targets))
    lines += ["## `reference` against integer kernels of others", ""]
    lines += ["TFLite rounds some operators twice (gemmlowp); our accumulators rounded that way equal it everywhere."]
    lines += ["The test next to the table states which rows differ by design.", ""]
    return lines + table(("judge", "operator and precision", "elements", "equal", "largest difference, LSB"), exact)


def own_rules(found: Sequence[Any], targets: Mapping[str, str]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each target, and one for each case with a difference."""
    for judge, target in targets.items():
        rows = [row for row in found if row["judge"] == judge]
        elements, equal = (sum(row[key] for row in rows) for key in ("elements", "equal"))
        largest = max(row["max_lsb"] for row in rows)
        yield target, f"all {len(rows)} cases", elements, f"{equal / elements:.5%}", largest
        for row in rows:
            if row["equal"] < row["elements"]:
                yield target, row["label"], row["elements"], f"{row['share']:.4%}", row["max_lsb"]


def simulator() -> list[str]:
    """Return the section on the exact simulator."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in figures("numerics_table"):
        cell = sums[row["case"], row["precision"]]
        cell[0] += row.get("elements", 0)
        cell[1] += row.get("equal", 0)
        cell[2] = max(cell[2], row.get("largest", 0))
    differing = [
        (case, precision, cell[0], f"{cell[1] / cell[0]:.4%}", cell[2])
        for (case, precision), cell in sums.items()
        if cell[0] and precision not in ("fp32", "fp16", "bf16") and cell[1] < cell[0]
    ]
    integers = [cell for (_, precision), cell in sums.items() if precision not in ("fp32", "fp16", "bf16")]
    total, equal = sum(cell[0] for cell in integers), sum(cell[1] for cell in integers)
    lines = ["## `npusim` exact against `reference`", ""]
    lines += [f"{len(integers)} pairs of operator case and integer precision, each on the three targets' arithmetic:"]
    lines += [
        f"{equal} of {total} stored values are equal ({equal / total:.5%}). The pairs that are not wholly equal:",
        "",
    ]
    return lines + table(("case", "precision", "elements", "equal", "largest difference, LSB"), differing)


def main() -> None:
    """Write the page."""
    head = ["# Operators", "", "Made by `python docs/make_tables.py`; do not edit.", ""]
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join([*head, *node_tests(), *integer_kernels(), *simulator()]), encoding="utf-8")


if __name__ == "__main__":
    main()
