"""Every network of the collection on VeriSilicon's simulator beside our exact simulation, tensor by tensor.

Run `python benchmarks/vendor_models.py --log LOG [--model TEXT ...] [--target vsi:v853 ...] [--precision u8 ...]
[--minutes M]`, then `--write docs/reference/vendor_models.md --log LOG`. Each cell, a network at a precision on a part,
is a line of the log, and a run goes on behind what the log holds; `--lower-only` plans and lowers, which takes a second
a cell, and leaves the simulator to a later run. The digit detector of the examples runs with mixed
plans too. Needs the SDK and the collected models ($DOVETAIL_MODELS).
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import backend, find_target
from dovetail.compare import Judged, Taps, Verification, VerifyRequest, verify
from dovetail.errors import CompileError, DeviceError, DovetailError
from dovetail.ir import AnyArray
from dovetail.partition import Partition
from dovetail.sdk import find_verisilicon
from zoo.catalogue import ENVIRONMENT, models_root
from zoo.collection import NETWORKS, Prepared, missing, prepare
from zoo.machine import facts
from zoo.vendor_models_page import Outcome, Row, as_page
from zoo.vendor_whole import digit_cases

TARGETS = ("vsi:v853", "vsi:a311d", "vsi:imx8mp")
PRECISIONS = ("i8pc", "u8", "i16")
_SAMPLES = 8
_CUTS = 24
_HOST = "cpu"


class TooLong(BaseException):
    """Stop a cell; no handler of ordinary errors may take it for one."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """Hold what a cell runs."""

    row: Row
    parts: Sequence[Partition]
    outputs: Sequence[str]
    samples: Sequence[Mapping[str, AnyArray]]


def measure(cell: Deployed, limit_s: float, *, lower_only: bool = False) -> Row:
    """Return what becomes of a cell; `lower_only` does not run the simulator."""
    start = time.perf_counter()
    cell = replace(cell, row=_counted(cell))
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        found = _lowered(cell) if lower_only else _measured(cell)
    except TooLong:
        found = replace(cell.row, outcome=Outcome.STOPPED, reason=f"it took longer than {limit_s:.0f} s")
    except Exception:
        # What breaks in our own code is a finding, and the run goes on.
        found = replace(cell.row, outcome=Outcome.BROKEN, reason=traceback.format_exc(limit=-2))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return replace(found, seconds=round(time.perf_counter() - start, 1))


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooLong


def _counted(cell: Deployed) -> Row:
    """Return the row with what is known before anything runs."""
    placed = [part for part in cell.parts if part.target != _HOST]
    on_npu = sum(len(part.graph.nodes) for part in placed)
    on_cpu = sum(len(part.graph.nodes) for part in cell.parts) - on_npu
    return replace(cell.row, on_npu=on_npu, on_cpu=on_cpu, partitions=len(placed), samples=len(cell.samples))


def _lowered(cell: Deployed) -> Row:
    placed = [part for part in cell.parts if part.target != _HOST]
    if not placed:
        return replace(cell.row, outcome=Outcome.REFUSED)
    try:
        for part in placed:
            backend("npusim").compile(part.graph, find_target(part.target), CompileOptions())
    except CompileError as error:
        return replace(cell.row, outcome=Outcome.LATE, reason=error.message)
    return replace(cell.row, outcome=Outcome.LOWERED)


def _measured(cell: Deployed) -> Row:
    row = _lowered(cell)
    if row.outcome is not Outcome.LOWERED:
        return row
    try:
        found = verify(cell.parts, cell.outputs, cell.samples, VerifyRequest(most_cuts=_CUTS))
    except (CompileError, DeviceError) as error:
        return replace(row, outcome=Outcome.VENDOR, reason=error.message)
    return _told(row, found)


def _told(row: Row, found: Verification) -> Row:
    """Return the row with what verifying found."""
    first = found.first_deviation
    named = ""
    if first is not None:
        counts = f"{first.steps.differing} of {first.steps.elements} by up to {first.steps.largest}"
        named = f"{first.op} {first.node}: {counts} ({first.judged.value})"
    ways = Counter(look.taps for look in found.inside)
    said = {Taps.BELIEVED: Judged.TAP.value, Taps.SILENT: "tap and cut"}
    reasons = dict.fromkeys(look.reason for look in found.inside if look.reason)
    read = dict.fromkeys(said.get(taps, Judged.CUT.value) for taps in ways)
    return replace(
        row,
        outcome=Outcome.EQUAL if found.equal else Outcome.DIFFERS,
        elements=sum(item.steps.elements for item in found.outputs),
        differing=sum(item.steps.differing for item in found.outputs),
        # Floats behind the NPU would be counted in units of their last place.
        largest=max((item.steps.largest for item in found.outputs if item.target != _HOST), default=0),
        operators=sum(look.operators for look in found.inside),
        judged=len(found.operators),
        equal_inside=sum(item.steps.differing == 0 for item in found.operators),
        unread=sum(len(look.unjudged) for look in found.inside),
        ways=", ".join(read),
        first=named,
        reason="; ".join(reasons),
    )


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a log; none where there is no log."""
    return [Row.from_json(line) for line in path.read_text().splitlines()] if path.is_file() else []


def cells(given: argparse.Namespace, held: Sequence[Row]) -> Iterator[Deployed]:
    """Yield the cells that the log does not hold, the cheapest networks first."""
    done = {row.key for row in held if given.lower_only or row.outcome is not Outcome.LOWERED}
    wanted = [text.lower() for text in given.model] or [""]
    if any(text in "digits" for text in wanted):
        for case in digit_cases(_SAMPLES):
            row = Row(case.title, case.target, case.precision, Outcome.BROKEN)
            if case.target in given.target and row.key not in done:
                yield Deployed(row, case.parts, case.outputs, [sample.inputs for sample in case.samples])
    for file in NETWORKS:
        rows = [
            Row(Path(file).stem, target, precision, Outcome.BROKEN)
            for precision in given.precision
            for target in given.target
        ]
        rows = [row for row in rows if row.key not in done]
        if not rows or not any(text in file.lower() for text in wanted) or missing(given.models, file):
            continue
        network = prepare(given.models, file, _SAMPLES)
        yield from (_deployed(row, network) for row in rows)


def _deployed(row: Row, network: Prepared) -> Deployed:
    try:
        placed = network.placed(row.target, row.precision)
    except DovetailError as error:
        # Nothing to run: the plan said no.
        return Deployed(replace(row, reason=error.message), (), (), ())
    return Deployed(row, placed.partitions, placed.source.graph.outputs, network.samples)


def left_out(given: argparse.Namespace, held: Sequence[Row]) -> list[str]:
    """Return what was not run, and why."""
    done = {row.key for row in held}
    found = []
    for file in NETWORKS:
        name, why = Path(file).stem, missing(given.models, file)
        wanted = [(target, precision) for precision in PRECISIONS for target in TARGETS]
        short = [
            f"{target.removeprefix('vsi:')} {precision}"
            for target, precision in wanted
            if (name, target, precision) not in done
        ]
        if short:
            found.append(f"{name}: {why or ', '.join(short)}")
    return found


def run(given: argparse.Namespace) -> None:
    """Measure cells until there are no more, or the time is over."""
    held, end = read_rows(given.log), time.monotonic() + 60.0 * given.minutes
    for cell in cells(given, held):
        if time.monotonic() > end:
            break
        found = measure(cell, given.limit_s, lower_only=given.lower_only)
        with given.log.open("a") as stream:
            stream.write(found.to_json() + "\n")
        print(" | ".join(found.cells), flush=True)


def main() -> None:
    """Do what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, default=Path("vendor-models.jsonl"))
    parser.add_argument("--models", type=Path, default=models_root(), help=f"the collected models (${ENVIRONMENT})")
    parser.add_argument("--model", nargs="*", default=[], metavar="TEXT", help="only files with this in their path")
    parser.add_argument("--target", nargs="*", default=TARGETS)
    parser.add_argument("--precision", nargs="*", default=PRECISIONS)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--limit-s", type=float, default=600.0, help="longest time of a cell (default: %(default)s)")
    parser.add_argument("--lower-only", action="store_true", help="plan and lower, and do not run the simulator")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    given = parser.parse_args()
    if given.write:
        rows = read_rows(given.log)
        given.write.write_text(as_page(rows, left_out(given, rows), facts(), _CUTS), encoding="utf-8")
        return
    if not given.lower_only and not find_verisilicon().usable:
        sys.exit(f"{find_verisilicon().reason}: run 'dovetail sdk install verisilicon'")
    run(given)


if __name__ == "__main__":
    main()
