"""dovetail profile: where the time of a bundle goes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.on import OnVerb
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


@dataclass(frozen=True, kw_only=True)
class Profile(OnVerb, DataVerb):
    """Measure the partitions of a bundle: one request at a time, then several under way.

    The time of a partition holds the transfers that its device tells of; what is left over between partitions is
    bookkeeping and waiting. The scenarios are those of MLPerf's LoadGen: SingleStream sends a request when the one
    before it is answered, Offline has several under way. With --on a board runs and times it, and no network is in the
    figures. The trace can be opened in chrome://tracing or Perfetto.
    """

    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Bundle (dovetail compile).", show_default=False)]
    runs: Annotated[int, typer.Option("--runs", metavar="N", help="Runs that are measured.")] = 20
    trace: Annotated[Path | None, typer.Option("--trace", metavar="FILE", help="Write a Chrome trace (JSON).")] = None

    @property
    def planned_by(self) -> Path | None:
        return self.bundle

    def run(self, screen: Screen) -> Answer:
        import dovetail
        from dovetail.report.measured import memory_document, scenarios
        from dovetail.report.trace import chrome_trace
        from dovetail.runtime import ProfileOptions

        options = ProfileOptions(runs=self.runs)
        bundle = dovetail.load_bundle(self.bundle)
        samples = self.open(self.data, dovetail.specs_of(bundle.inputs), limit=self.runs)
        feeds = [sample.inputs for sample in samples]
        if not feeds:
            raise DataError(f"{self.data}: the data set is empty.", hint="Give at least one sample.")
        with (
            self.place() as place,
            place.load(bundle) as model,
            screen.progress("profiling", 2 * self.runs) as bar,
        ):
            profile = model.profile(feeds, options, bar.advance)
        runs = profile.runs
        if self.trace is not None:
            write_file(self.trace, chrome_trace(runs, profile.starts_ns))
        document = {
            "bundle": str(self.bundle),
            "runs": self.runs,
            "on": self.on,
            "partitions": [
                _row(part, index, profile.devices[index], runs) for index, part in enumerate(bundle.partitions)
            ],
            "median_ns": statistics.median(run.elapsed_ns for run in runs),
            "p90_ns": profile.percentile_ns(0.9),
            "p99_ns": profile.percentile_ns(0.99),
            "idle_ns": statistics.median(run.idle_ns for run in runs),
            "throughput_per_s": profile.per_second,
            "scenarios": scenarios(profile),
            "memory": memory_document(profile),
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
    from dovetail.report.measured import memory_text, scenario_table
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
    facts = [("between partitions", time_text(float(str(document["idle_ns"]))))]
    memory = document["memory"]
    if isinstance(memory, Mapping):
        facts.append(("memory", memory_text(memory)))
    if document["trace"] is not None:
        facts.append(("trace", str(document["trace"])))
    sources = dict.fromkeys(row["predicted_by"] for row in partitions if row["predicted_by"])
    note = "Borders are what a partition reads and writes, moving is the part of the time that its transfers take. "
    note += "A simulated device's time is not the hardware's."
    if sources:
        note += f" Predicted is the work of the units, without conversions and transfers: {'; '.join(sources)}."
    title = f"Profile of '{bundle.name}', {document['runs']} runs"
    parts = Table("Partitions", columns, tuple(rows), note)
    told = document["scenarios"]
    assert isinstance(told, Mapping)
    return Page(title, (parts, scenario_table(told), Facts("", tuple(facts))))
