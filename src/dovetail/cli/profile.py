"""dovetail profile: where the time of a bundle goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.options import DataVerb
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer
from dovetail.errors import DataError
from dovetail.files import write_file

if TYPE_CHECKING:
    from dovetail.bundle import Bundle
    from dovetail.bundle.bundle import CompiledPartition
    from dovetail.report import Page
    from dovetail.runtime import Run

_WARM_UPS = 2


@dataclass(frozen=True, kw_only=True)
class Profile(DataVerb):
    """Measure the partitions of a bundle: one request at a time, then several under way.

    The time of a partition holds the transfers that its device tells of; what is left over between partitions is
    bookkeeping and waiting. The trace can be opened in chrome://tracing or Perfetto.
    """

    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle (dovetail compile).", show_default=False)]
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="Runs that are measured.")] = 20
    trace: Annotated[Path | None, typer.Option("--trace", metavar="FILE", help="Write a Chrome trace (JSON).")] = None

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.report.trace import chrome_trace

        if self.runs < 1:
            raise DataError(f"--runs {self.runs}: at least one run is needed.")
        bundle = dovetail.load_bundle(self.bundle)
        samples = self.open(self.data, dovetail.specs_of(bundle.inputs), limit=self.runs)
        feeds = [sample.inputs for sample in samples]
        if not feeds:
            raise DataError(f"{self.data}: the data set is empty.", hint="Give at least one sample.")
        with dovetail.open_session(bundle) as session, screen.progress("profiling", 2 * self.runs) as bar:
            for _ in range(_WARM_UPS):
                session.run(feeds[0])
            runs: list[Run] = []
            starts: list[int] = []
            for number in range(self.runs):
                starts.append(time.perf_counter_ns())
                runs.append(session.run(feeds[number % len(feeds)]))
                bar.advance(number + 1)
            begin = time.perf_counter_ns()
            for number, _ in enumerate(session.run_many(feeds[index % len(feeds)] for index in range(self.runs))):
                bar.advance(self.runs + number + 1)
            together_ns = time.perf_counter_ns() - begin
            devices = session.devices
        if self.trace is not None:
            write_file(self.trace, chrome_trace(runs, starts))
        median_ns = statistics.median(run.elapsed_ns for run in runs)
        document = {
            "bundle": str(self.bundle),
            "runs": self.runs,
            "partitions": [_row(part, index, devices[index], runs) for index, part in enumerate(bundle.partitions)],
            "median_ns": median_ns,
            "idle_ns": statistics.median(run.idle_ns for run in runs),
            "throughput_per_s": self.runs * 1e9 / together_ns,
            "trace": None if self.trace is None else str(self.trace),
        }
        return Answer(document, _page(bundle, document))


def _row(part: CompiledPartition, index: int, device: str, runs: Sequence[Run]) -> dict[str, object]:
    times = [item for run in runs for item in run.timings if item.index == index]
    sizes = [part.tensors[name].size_bytes() for name in (*part.inputs, *part.outputs)]
    known = [size for size in sizes if size is not None]
    return {
        "index": index,
        "target": part.target,
        "device": device,
        "backend": part.backend,
        "nodes": len(part.nodes),
        "units": part.units,
        "macs": part.macs,
        "boundary_bytes": sum(known) if len(known) == len(sizes) else None,
        "predicted_ns": part.predicted_ns,
        "predicted_by": part.predicted_by,
        "median_ns": statistics.median(item.elapsed_ns for item in times),
        "min_ns": min(item.elapsed_ns for item in times),
        "transfer_ns": statistics.median(item.transfer_ns for item in times),
    }


def _page(bundle: Bundle, document: dict[str, object]) -> Page:
    from dovetail.report.figures import bytes_text, count_text, time_text
    from dovetail.report.page import Facts, Page, Table, flexible, right

    rows: list[tuple[str, ...]] = []
    partitions = document["partitions"]
    assert isinstance(partitions, list)
    for row in partitions:
        rows.append(
            (
                str(row["index"]),
                row["target"],
                row["device"],
                "-" if row["units"] is None else str(row["units"]),
                count_text(row["macs"]),
                bytes_text(row["boundary_bytes"]),
                time_text(row["predicted_ns"]),
                time_text(row["median_ns"]),
                time_text(row["min_ns"]),
                time_text(row["transfer_ns"]),
            )
        )
    columns = (
        right("#"),
        flexible("target"),
        flexible("device"),
        right("units"),
        right("MACs"),
        right("borders"),
        right("predicted"),
        right("median"),
        right("fastest"),
        right("moving"),
    )
    facts = [
        ("a request", time_text(float(str(document["median_ns"])))),
        ("between partitions", time_text(float(str(document["idle_ns"])))),
        ("requests a second, several under way", f"{float(str(document['throughput_per_s'])):.1f}"),
    ]
    if document["trace"] is not None:
        facts.append(("trace", str(document["trace"])))
    sources = dict.fromkeys(row["predicted_by"] for row in partitions if row["predicted_by"])
    note = "Borders are what a partition reads and writes, moving is the part of the time that its transfers take. "
    note += "A simulated device's time is not the hardware's."
    if sources:
        note += f" Predicted is the work of the units, without conversions and transfers: {'; '.join(sources)}."
    title = f"Profile of '{bundle.name}', {document['runs']} runs"
    return Page(title, (Table("Partitions", columns, tuple(rows), note), Facts("", tuple(facts))))
