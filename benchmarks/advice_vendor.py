"""What `advise --rewrites` saves on the collection by the vendor's own performance model.

python benchmarks/advice_vendor.py [--model PART ...] [--target NAME ...] [--log FILE] [--page [FILE]]

Needs the SDK and the collected models. `advise` decides as it does for users; beside its prices stand those of the
vendor's model, of the network as it is, with each rewrite that matches, and with all that were taken. With `--log` it
writes them line by line, and goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import zoo.machine as machine
from dovetail.errors import DovetailError
from dovetail.fit.advice import AdviceRequest, float_graph
from dovetail.fit.rewriting import NOTHING, TAKEN, TOGETHER, UNPROVED, try_rewrites
from dovetail.fit.simulating import modelled_ns
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.passes.rewrites import REWRITES
from zoo.catalogue import models_root
from zoo.collection import NETWORKS, missing
from zoo.inputs import options_of
from zoo.shares import clopper_pearson
from zoo.table import markdown, text

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "advice.md"
_TARGETS = ("vsi:v853", "vsi:a311d", "vsi:imx8mp")
_WORTH = 0.005
"""What `advise` calls a saving, as a share of the latency."""
_HEADS = ("network", "target", "rewrite", "what advise says", "by its prices", "by the vendor's model", "vendor's ms")
_WHOLE = ("network", "target", "taken", "by its prices", "by the vendor's model", "vendor's ms before", "after")


@dataclass(frozen=True, slots=True)
class Priced:
    """A rewrite on a network on a board; the one named by `TOGETHER` is all that were taken."""

    network: str
    target: str
    rewrite: str
    outcome: str
    advised_before_ns: float | None
    advised_after_ns: float | None
    vendor_before_ns: float | None
    vendor_after_ns: float | None
    why: str = ""
    """Why the vendor's model says nothing."""

    @property
    def advised(self) -> float | None:
        """Latency after, of before, by the prices that advise has."""
        return _ratio(self.advised_before_ns, self.advised_after_ns)

    @property
    def vendor(self) -> float | None:
        """The same by the vendor's model."""
        return _ratio(self.vendor_before_ns, self.vendor_after_ns)


def _ratio(before: float | None, after: float | None) -> float | None:
    return None if not before or after is None else after / before


def measure(options: argparse.Namespace) -> Iterator[Priced]:
    """Yield what every rewrite does to every network on every board; networks that the log has are not asked about."""
    log: Path | None = options.log
    known = [] if log is None or not log.is_file() else [json.loads(line) for line in log.read_text().splitlines()]
    done = {(row["network"], row["target"]) for row in known if row["rewrite"] == TOGETHER}
    yield from (Priced(**row) for row in known if (row["network"], row["target"]) in done)
    for file in NETWORKS:
        if options.model and not any(part in file for part in options.model):
            continue
        if why := missing(models_root(), file):
            print(f"{file}: {why}", file=sys.stderr, flush=True)
            continue
        for target in options.target or _TARGETS:
            if (file, target) in done:
                continue
            for row in _of_one(file, target):
                if log is not None:
                    with log.open("a", encoding="utf-8") as stream:
                        stream.write(json.dumps(asdict(row)) + "\n")
                yield row


def _of_one(file: str, target: str) -> Iterator[Priced]:
    """Yield a row for each rewrite that matches, and one for all that were taken, which may be none."""
    began = time.monotonic()
    request = AdviceRequest(models_root() / file, load=options_of(file), targets=(target,))
    graph = float_graph(request.model, request.load)
    found = try_rewrites(request)
    before, why = _asked(graph, target)
    by_name = {rewrite.name: rewrite for rewrite in REWRITES}
    prices = [None if row.name == TOGETHER else row for row in found.rows]
    last = found.rows[-1] if found.rows else None
    for row in filter(None, prices):
        after, said = _asked(normalize(by_name[row.name](graph)), target)
        yield Priced(
            *(file, target, row.name, row.outcome, row.before.latency_ns, row.after.latency_ns),
            *(before, after, said or why),
        )
    taken = [row for row in filter(None, prices) if row.outcome == TAKEN]
    whole = last if last is not None and last.name == TOGETHER else (taken[0] if taken else None)
    advised = (None, None) if whole is None else (whole.before.latency_ns, whole.after.latency_ns)
    after, said = _asked(found.graph, target) if taken else (before, "")
    names = ", ".join(found.taken)
    yield Priced(file, target, TOGETHER, names, *advised, before, after, said or why)
    print(f"{file} {target}: {len(found.rows)} rows, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _asked(graph: Graph, target: str) -> tuple[float | None, str]:
    try:
        return modelled_ns(graph, target, None), ""
    except DovetailError as error:
        return None, error.message


def alone_cells(rows: Sequence[Priced]) -> list[tuple[str, ...]]:
    """Return a line for each rewrite that matches."""
    return [
        (
            *(_short(row.network), row.target, row.rewrite, row.outcome, _share(row.advised), _share(row.vendor)),
            f"{_ms(row.vendor_before_ns)} to {_ms(row.vendor_after_ns)}",
        )
        for row in rows
        if row.rewrite != TOGETHER
    ]


def whole_cells(rows: Sequence[Priced]) -> list[tuple[str, ...]]:
    """Return a line for each network in which something was taken."""
    return [
        (
            *(_short(row.network), row.target, row.outcome, _share(row.advised), _share(row.vendor)),
            *(_ms(row.vendor_before_ns), _ms(row.vendor_after_ns)),
        )
        for row in rows
        if row.rewrite == TOGETHER and row.outcome
    ]


def _short(file: str) -> str:
    return Path(file).stem


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:.3f}"


def summary(rows: Sequence[Priced]) -> list[str]:
    """Return what the tables come to, in sentences."""
    alone = [row for row in rows if row.rewrite != TOGETHER]
    networks = {(row.network, row.target) for row in rows}
    lines = [
        f"{len(networks)} networks on boards, {len(alone)} rewrites that match, "
        f"{sum(row.outcome == UNPROVED for row in alone)} not proved."
    ]
    for said, what in ((TAKEN, "taken"), (NOTHING, "left alone, as they would save nothing,")):
        asked = [row.vendor for row in alone if row.outcome == said and row.vendor is not None]
        saves = sum(value < 1 - _WORTH for value in asked)
        costs = sum(value > 1 + _WORTH for value in asked)
        low, high = clopper_pearson(saves, len(asked)) if asked else (0.0, 1.0)
        lines.append(
            f"Of {len(asked)} that are {what} {saves} save at least 0.5 % by the vendor's model (95 %: {low:.2f} to "
            f"{high:.2f}), {costs} cost as much, and {len(asked) - saves - costs} change less."
        )
    whole = [row for row in rows if row.rewrite == TOGETHER and row.outcome]
    priced = [row for row in whole if row.vendor is not None]
    before, after = (sum(getattr(row, f"vendor_{side}_ns") or 0.0 for row in priced) for side in ("before", "after"))
    better = sum((row.vendor or 1.0) < 1 - _WORTH for row in priced)
    worse = sum((row.vendor or 1.0) > 1 + _WORTH for row in priced)
    lines.append(
        f"Something is taken in {len(whole)} of {len(networks)}; with all of it {better} are faster by the vendor's "
        f"model and {worse} slower: {before / 1e6:.1f} ms before, {after / 1e6:.1f} ms after, summed."
    )
    return lines


def page(rows: Sequence[Priced]) -> str:
    """Return the page."""
    said = "".join(f"- {line}\n" for line in summary(rows))
    whys = dict.fromkeys(f"{_short(row.network)} on {row.target}: {row.why}" for row in rows if row.why)
    silent = "".join(f"- {why}\n" for why in whys) or "- none\n"
    return f"""# What advice saves

Made by `python benchmarks/advice_vendor.py --page`; do not edit. [What rewrites are](../how-to/advise.md),
[what they do to drawn networks](rewrites.md).

{"; ".join(machine.facts())}

Every network of the collection, which is not part of this repository, on {len(_TARGETS)} boards, everything in the
8 bits that a board prefers, on the chip's CPU what the NPU refuses. `advise --rewrites` decides as it does for users
without the vendor's simulator. Beside its own prices stand those of VeriSilicon's performance model: no board was
timed. Each figure is the latency after, of the latency before; below 1 is faster. What the CPU takes, and what moving
tensors to it and back takes, is priced in the same way on both sides.

{said}
## Rewrites that were taken, all together

{markdown(_WHOLE, whole_cells(rows))}

## Each rewrite that matches, alone

{markdown(_HEADS, alone_cells(rows))}

## Where the vendor's model says nothing

{silent}"""


def main() -> None:
    """Measure, and show or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="only files whose path has this in it; may be repeated")
    parser.add_argument("--target", action="append", help="only this board; may be repeated")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", nargs="?", const=_PAGE, type=Path, metavar="FILE", help="write the page")
    options = parser.parse_args()
    rows = list(measure(options))
    if options.page is not None:
        options.page.write_text(page(rows), encoding="utf-8")
    elif options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        print(text(_HEADS, alone_cells(rows)), text(_WHOLE, whole_cells(rows)), *summary(rows), sep="\n\n")


if __name__ == "__main__":
    main()
