"""What the exact arithmetic of targets makes of models that other tools quantised; write docs/reference/judge.md.

python benchmarks/judge_table.py [--models FOLDER] [--case NAME ...] [--tool NAME ...] [--target NAME ...]
    [--python TOOL=PATH ...] [--samples N] [--page]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import zoo.machine as machine
from dovetail.compare.judgement import Judgement, NodeOutcome
from dovetail.errors import DovetailError
from dovetail.fit import JudgeRequest, judge
from zoo.catalogue import models_root
from zoo.judged import JUDGED_CASES, JudgedCase, JudgedSamples, MadeFile, make_file, own_score, python_of, write_samples
from zoo.quantisers import QUANTISERS
from zoo.table import markdown, number, text

_PACKAGES = ("dovetail", "onnxruntime", "nncf", "ai-edge-quantizer", "ai-edge-litert")
TARGETS = ("vsi:a311d", "vsi:imx8mp", "vsi:v853")
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "judge.md"
_METRIC = f"{Path(__file__).resolve().parent / 'zoo' / 'accepted.py'}:top1"
_HEADS = ("model", "tool", "its own runtime", "target", "on the target", "latency, ms", "nodes as asked", "the others")


@dataclass(frozen=True, slots=True)
class Row:
    """One file on one target; scores are shares of the samples."""

    case: str
    tool: str
    own: float | None
    target: str
    score: float | None = None
    latency_ms: float | None = None
    honoured: str = ""
    others: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Return what is printed."""
        figures = (number(self.own, 3), self.target, number(self.score, 3), number(self.latency_ms, 2))
        return (self.case, self.tool, *figures, self.honoured, self.others)


def main() -> int:
    """Judge what was asked for."""
    options = _arguments()
    root = models_root(options.models)
    if not root.is_dir():
        print(f"{root}: no such folder. Name the collected models with --models.", file=sys.stderr)
        return 2
    rows: list[Row] = []
    floats: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for case in JUDGED_CASES:
            if options.case and case.name not in options.case:
                continue
            samples = _limited(case.open(root), options.samples)
            whole = root / (case.onnx or case.tflite)
            floats.append(f"{case.name} {own_score(whole, samples):.3f} on {len(samples.inputs)} samples")
            for row in _rows(case, samples, root, Path(name), options):
                print("  ".join(cell or "-" for cell in row.cells), flush=True)
                rows.append(row)
    print()
    print("\n".join(machine.facts(_PACKAGES)))
    print(f"float: {'; '.join(floats)}")
    print(text(_HEADS, [row.cells for row in rows]))
    if options.page:
        _PAGE.write_text(_page(rows, floats), encoding="utf-8")
    return 0


def _rows(
    case: JudgedCase, samples: JudgedSamples, root: Path, folder: Path, options: argparse.Namespace
) -> Iterator[Row]:
    pythons = dict(item.split("=", 1) for item in options.python)
    data = write_samples(samples, folder / f"{case.name}.npz")
    files = [MadeFile(label, root / path, 0.0) for label, path in case.shipped.items() if not options.tool]
    for tool in options.tool or QUANTISERS:
        files.append(make_file(case, tool, python_of(pythons, tool), root, folder))
    for made in files:
        if made.path is None:
            yield Row(case.name, made.tool, None, "", others=made.reason)
            continue
        own = own_score(made.path, samples)
        whole = root / (case.tflite if made.path.suffix == ".tflite" else case.onnx)
        for target in options.target or TARGETS:
            request = JudgeRequest(made.path, data, target, float_model=whole, metric=_METRIC)
            try:
                yield _judged(case.name, made.tool, own, judge(request))
            except DovetailError as error:
                yield Row(case.name, made.tool, own, target, others=str(error)[:120])


def _judged(case: str, tool: str, own: float, found: Judgement) -> Row:
    counts = found.counts
    others = ", ".join(
        f"{counts[item]} {item.value}" for item in NodeOutcome if item is not NodeOutcome.HONOURED and counts[item]
    )
    shaders = sum(item.engine is not None and item.engine.value == "SH" for item in found.nodes)
    told = "; ".join(filter(None, (others, f"{shaders} on shaders" if shaders else "", found.score.reason[:80])))
    latency = None if found.cost is None else found.cost.latency_ns / 1e6
    honoured = f"{counts[NodeOutcome.HONOURED]} of {len(found.nodes)}"
    return Row(case, tool, own, found.target, found.score.value, latency, honoured, told)


def _limited(samples: JudgedSamples, limit: int | None) -> JudgedSamples:
    if limit is None:
        return samples
    return JudgedSamples(samples.calibration[:limit], samples.inputs[:limit], samples.accepted[:limit])


def _page(rows: Sequence[Row], floats: Sequence[str]) -> str:
    table = markdown(_HEADS, [row.cells for row in rows])
    made = "\n".join(machine.facts(_PACKAGES))
    return _TEXT.format(floats="; ".join(floats), table=table, machine=made)


_TEXT = """# Models of other tools, judged

What other tools quantise, on the runtime that they quantise for (ONNX Runtime, LiteRT) and on the exact arithmetic of
NPUs. Every tool had the same float file and calibration samples, with its defaults but for what its name says here.
`dovetail judge` made every row ([how](../how-to/judge.md)), and `benchmarks/judge_table.py --page` the page.

Float: {floats}. Scores are top-1; with so few samples differences below 0.03 say little. Latencies are those of the
[fitted roofline](price.md), CPU and transfers included: nothing was measured on a board.

{table}

*Restated* nodes compute with the same values in the target's own form (signed bytes as unsigned ones), *changed* ones
on another grid. `on shaders` counts nodes that no fixed engine runs, such as convolutions with a scale per channel on
a311d and imx8mp.

```
{machine}
```
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="the collected models")
    parser.add_argument("--case", action="append", choices=[case.name for case in JUDGED_CASES])
    parser.add_argument("--tool", action="append", choices=list(QUANTISERS))
    parser.add_argument("--target", action="append")
    parser.add_argument(
        "--python", action="append", default=[], metavar="TOOL=PATH", help="interpreter that has a tool"
    )
    parser.add_argument("--samples", type=int, help="only the first so many")
    parser.add_argument("--page", action="store_true", help="write docs/reference/judge.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
