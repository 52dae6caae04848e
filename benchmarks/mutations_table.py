"""Damaged files of toolchains through the command line: how many are read, how many refused, and whether anything else.

python benchmarks/mutations_table.py [--count N] [--seed S] [--format NAME ...] [--keep FILE] [--page FILE]

The files are those that `export` writes of one plan of a small network. Each mutation goes through `import-plan` in
this process: its exit code is 0 or 2, and what is refused has one line. Anything else is a finding, and is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import zoo.machine as machine
from dovetail.cli.main import main as command
from dovetail.exporters import to_onnx
from zoo.table import markdown

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests" / "support")]
from tests.formats.test_mutations import NAMES, Subject, mutated  # noqa: E402

_HEADS = ("format", "mutations", "read", "refused", "findings", "slowest, s")
_TIMEOUT_S = 20.0
_DONE, _BAD_INPUT = 0, 2


@dataclass(slots=True)
class Row:
    """What became of the mutations of one format; `slowest_s` is processor time."""

    format: str
    read: int = 0
    refused: int = 0
    other: int = 0
    slowest_s: float = 0.0
    findings: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Return how many mutations there were."""
        return self.read + self.refused + self.other


def main() -> int:
    """Damage files, and write the page; 1 where there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="mutations of a format (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed (default: %(default)s)")
    parser.add_argument("--format", action="append", choices=NAMES, help="only this format; may be repeated")
    parser.add_argument("--keep", type=Path, help="file of rows: formats in it are not measured again")
    parser.add_argument("--page", type=Path, help="where the page goes")
    options = parser.parse_args()
    keep: Path | None = options.keep
    kept = keep.read_text(encoding="utf-8").splitlines() if keep is not None and keep.exists() else []
    known = {row.format: row for row in (Row(**json.loads(line)) for line in kept)}
    for name in options.format or NAMES:
        if name not in known:
            known[name] = measure(name, options.count, options.seed)
            if keep is not None:
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(known[name])) + "\n")
    rows = [known[name] for name in sorted(known)]
    for row in rows:
        for finding in row.findings[:5]:
            print(f"{row.format}: {finding}", file=sys.stderr)
    if options.page is not None:
        options.page.write_text(page(rows, options.count, options.seed), encoding="utf-8")
    return int(any(row.findings for row in rows))


def measure(name: str, count: int, seed: int) -> Row:
    """Return what becomes of the mutations of a format."""
    subject, rng, row = Subject(name), random.Random(f"{seed} {name}"), Row(name)
    with tempfile.TemporaryDirectory(prefix="dovetail-") as folder:
        words = _command(subject, Path(folder))
        Path(folder, "damaged").write_bytes(subject.content)
        with contextlib.redirect_stdout(io.StringIO()):
            if command(words) != _DONE:
                raise SystemExit(f"{name}: the file is refused before anything is damaged")
        for number in range(count):
            content = mutated(subject.content, rng)
            Path(folder, "damaged").write_bytes(content)
            began = time.process_time()
            said = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                code = int(command(words))
            taken = time.process_time() - began
            row.slowest_s = max(row.slowest_s, taken)
            row.read += code == _DONE
            row.refused += code == _BAD_INPUT
            row.other += code not in (_DONE, _BAD_INPUT)
            lines = said.getvalue().splitlines()
            if code not in (_DONE, _BAD_INPUT) or taken > _TIMEOUT_S or (code == _BAD_INPUT and len(lines) != 1):
                row.findings.append(f"mutation {number}, exit code {code}, {taken:.1f} s: {content!r}: {lines[-1:]}")
    print(f"{name}: {row.read} read, {row.refused} refused, {len(row.findings)} findings", file=sys.stderr, flush=True)
    return row


def _command(subject: Subject, folder: Path) -> list[str]:
    model = to_onnx(subject.graph)
    # The file has the names that the toolchain's files have.
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [subject.graph.origin_of(name) for name in names]
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    words = ["import-plan", str(folder / "damaged"), "--model", str(folder / "model.onnx")]
    words += ["--format", subject.form.name, "--base", str(subject.low), "--exception", str(subject.high)]
    if subject.listing is not None:
        (folder / "listing").write_bytes(subject.listing)
        words += ["--listing", str(folder / "listing")]
    return [*words, "-o", str(folder / "plan.json")]


def page(rows: Sequence[Row], count: int, seed: int) -> str:
    """Return the page."""
    cells = [
        (
            f"`{row.format}`",
            str(row.total),
            str(row.read),
            str(row.refused),
            str(len(row.findings)),
            f"{row.slowest_s:.2f}",
        )
        for row in rows
    ]
    total, found = sum(row.total for row in rows), sum(len(row.findings) for row in rows)
    lines = [
        "# Damaged files of toolchains, through the command line",
        "",
        f"Made by `python benchmarks/mutations_table.py --count {count} --seed {seed} --page"
        " docs/reference/mutations.md`; do not edit.",
        "",
        *machine.facts(("dovetail",)),
        "",
        "Each mutation is a file that `export` wrote with one to five changes: a byte, a piece taken out or doubled, a"
        " word replaced by another or by what no parser expects, an end cut off. It goes through `dovetail import-plan`"
        " in one process. `read` is exit code 0: what was damaged was no part of the plan, or the file still says one."
        " `refused` is exit code 2 with one line. A finding is anything else, or more than"
        f" {_TIMEOUT_S:g} s of the processor.",
        "",
        f"Seed {seed}: {total} mutations of {len(rows)} formats, {found} findings.",
        "",
        markdown(_HEADS, cells),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
