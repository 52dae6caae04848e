"""Random operators and graphs on VeriSilicon's simulator against our exact simulation.

Run `python benchmarks/vendor_wild.py --operators N --graphs N --mixtures N --trios N --merges N --chains N --seed S
[--minutes M] [--target vsi:v853 ...] [--log FILE]`, then `--shrink LOG` for what differs, and `--write
docs/reference/vendor_wild.md --logs LABEL=LOG ...`: runs of other labels that the page shows stay. A mixture is a graph
with nodes at 8 and at 16 bits, as a search places them; a trio an operator with what makes its inputs and what reads
its result; a merge an operator of two tensors with what makes either; a chain operators that only move values, up to an
output. Cells are drawn by part, seed and number; each result is a line of the log, and a run goes on behind what the
log holds: an interrupted run is resumed, and two runs over different parts may share a log. The numbers count what the
verdict accepts, over all parts of the run. Needs the SDK.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from dovetail.backends.verisilicon.driver.process import DriverLimits
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.generation import CONVERTING
from dovetail.backends.verisilicon.parts.installed import simulated_profile
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import VsiProfile
from dovetail.ir.precision import Precision
from dovetail.sdk import find_verisilicon
from dovetail.testing.wild.campaign import WildCell, WildKind
from dovetail.testing.wild.case import read_case
from dovetail.testing.wild.deploying import Finding, SimulatorJudge, WildOutcome
from dovetail.testing.wild.shrinking import shrunk
from zoo.wild_page import Row, as_markdown

_LIMITS = DriverLimits(compile_s=900.0, run_s=600.0, kept_bytes=3 << 29)
_FOLDER = Path("tests/backends/verisilicon/cases")


def row(cell: WildCell, judge: SimulatorJudge) -> Row:
    """Return what becomes of a cell."""
    precision, case = cell.draw()
    begin = time.perf_counter()
    try:
        found = judge.judge(case, precision)
    except Exception:
        # What breaks in our own arithmetic is a finding, and the run goes on.
        found = Finding(WildOutcome.BROKEN, reason=traceback.format_exc(limit=-2))
    return Row(
        kind=cell.kind.value,
        target=cell.target,
        seed=cell.seed,
        index=cell.index,
        precision=precision.value,
        operators=tuple(node.op for node in case.graph.nodes),
        outcome=found.outcome.value,
        nodes=found.nodes,
        elements=found.steps.elements,
        differing=found.steps.differing,
        largest=found.steps.largest,
        reason=found.reason,
        seconds=round(time.perf_counter() - begin, 2),
    )


def started_from(profile: VsiProfile) -> tuple[Precision, ...]:
    """Return the precisions that a search starts from and raises to, unless it is told: those of the part's array."""
    bytes_ = (Precision.U8,) if profile.generation in CONVERTING else (Precision.I8PC, Precision.U8)
    return (*bytes_, Precision.I16)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a log; none where there is no log."""
    return [Row.from_json(line) for line in path.read_text().splitlines()] if path.is_file() else []


def cells(given: argparse.Namespace, held: list[Row]) -> Iterator[WildCell]:
    """Yield cells in turns over the parts until each has its share of what is accepted; `held` may grow meanwhile."""
    parts = len(given.target)
    asked = {
        WildKind.OPERATOR: given.operators,
        WildKind.GRAPH: given.graphs,
        WildKind.MIXTURE: given.mixtures,
        WildKind.TRIO: given.trios,
        WildKind.MERGE: given.merges,
        WildKind.CHAIN: given.chains,
    }
    shares = {kind: -(-count // parts) for kind, count in asked.items()}
    precisions = {name: started_from(_part(name)) if given.default_precisions else () for name in given.target}
    wanted = [(kind, target) for kind in WildKind for target in given.target]
    while True:
        short = False
        for kind, target in wanted:
            mine = [item for item in held if (item.kind, item.target, item.seed) == (kind.value, target, given.seed)]
            if sum(item.is_accepted for item in mine) < shares[kind]:
                short = True
                index = max((item.index for item in mine), default=-1) + 1
                yield WildCell(kind, target, given.seed, index, precisions[target])
        if not short:
            return


def _part(name: str) -> VsiProfile:
    """Return a part by its name here, or by the simulator's."""
    profile = simulated_profile(name)
    if profile is None:
        raise SystemExit(f"no part is called {name}")
    return profile


def run(given: argparse.Namespace) -> None:
    """Judge cells until there are enough, or the time is over."""
    settings = Settings(find_verisilicon().folder, _LIMITS)
    held, end = read_rows(given.log), time.monotonic() + 60.0 * given.minutes
    with ExitStack() as stack:
        judges = {name: stack.enter_context(SimulatorJudge(_part(name), settings)) for name in given.target}
        for cell in cells(given, held):
            if time.monotonic() > end:
                break
            found = row(cell, judges[cell.target])
            held.append(found)
            with given.log.open("a") as stream:
                stream.write(found.to_json() + "\n")
            if found.is_wrong:
                print(f"{cell.name} {found.precision} {' '.join(found.operators)}: {found.text}", flush=True)


def shrink(given: argparse.Namespace) -> None:
    """Write a case file for every row that is wrong and has none."""
    settings = Settings(find_verisilicon().folder, _LIMITS)
    with ExitStack() as stack:
        judges = {name: stack.enter_context(SimulatorJudge(_part(name), settings)) for name in given.target}
        for item in read_rows(given.shrink):
            path = _FOLDER / f"{item.name}.npz"
            if item.is_wrong and not path.exists() and item.target in judges:
                write_smallest(item, judges[item.target], path)


def write_smallest(item: Row, judge: SimulatorJudge, path: Path) -> None:
    """Write the smallest case that shows what a row does."""
    case = WildCell(WildKind(item.kind), item.target, item.seed, item.index).draw()[1]
    precision = Precision(item.precision)
    small = shrunk(case, lambda smaller: judge.judge(smaller, precision, confirmed=False).outcome.value == item.outcome)
    found = judge.judge(small, precision)
    if not found.is_wrong:
        print(f"{item.name}: nothing smaller shows it in a process of its own", flush=True)
        return
    facts = {"target": item.target, "precision": item.precision, "outcome": found.outcome.value}
    data = small.to_bytes({**facts, "largest": found.steps.largest, "reason": found.reason})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    ops = " ".join(node.op for node in small.graph.nodes)
    print(f"{path} {len(data)} bytes: {item.precision} {ops}: {found.outcome.value} {found.steps}", flush=True)


def write(given: argparse.Namespace) -> None:
    """Write the page of the labelled logs; what it shows of others stays."""
    looks: dict[str, list[Row]] = {}
    for entry in given.logs:
        label, _, path = entry.partition("=")
        looks.setdefault(label, []).extend(read_rows(Path(path)))
    cases = {path.stem: read_case(path)[0] for path in sorted(_FOLDER.glob("*.npz"))}
    smallest = {name: [node.op for node in case.graph.nodes] for name, case in cases.items()}
    page = given.write.read_text() if given.write.is_file() else ""
    given.write.write_text(as_markdown(looks, smallest, page))


def main() -> None:
    """Do what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=0)
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--mixtures", type=int, default=0, help="graphs with nodes at 8 and at 16 bits")
    parser.add_argument("--trios", type=int, default=0, help="operators between others")
    parser.add_argument("--merges", type=int, default=0, help="operators of two tensors that others make")
    parser.add_argument("--chains", type=int, default=0, help="operators that only move values, up to an output")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--default-precisions", action="store_true", help="those that a search starts from, and i16")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--target", nargs="*", default=[profile.name for profile in VSI_PROFILES])
    parser.add_argument("--log", type=Path, default=Path("vendor-wild.jsonl"))
    parser.add_argument("--shrink", type=Path, metavar="LOG")
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--logs", nargs="*", default=[], metavar="LABEL=LOG")
    given = parser.parse_args()
    if given.write:
        write(given)
        return
    if not find_verisilicon().usable:
        sys.exit(f"{find_verisilicon().reason}: run 'dovetail sdk install verisilicon'")
    if given.shrink:
        shrink(given)
        return
    print(f"seed {given.seed}", flush=True)
    run(given)


if __name__ == "__main__":
    main()
