"""How large a report is, and what a browser takes to show it: until something is painted, and for each frame.

python benchmarks/report_browser.py [RUN_FOLDER...] [--units N] [--json] [--page [FILE]]

Processor time is what all of Chromium's processes take together, so that a busy machine changes little; no frame can
take longer than that on a processor of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import Page as BrowserPage
from playwright.sync_api import sync_playwright

import zoo.machine as machine
from dovetail.report import Page, Prose, Tone
from dovetail.report.network import DrawnNetwork, NetworkPart, NetworkPoint, NetworkUnit
from dovetail.report.site import runs_html
from dovetail.report.view import RunView, load_view
from zoo.table import markdown, text

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "report.md"
_FRAMES = 60
_HEADS = (
    *("report", "units", "size", "first paint, by the clock", "drawn, processor time", "a frame of panning"),
    *("of zooming", "with the whole in view"),
)
_MOVE = """async ([frames, kind]) => {
  const graph = window.dovetailGraphs[0];
  if (kind === "whole") graph.fit(); else { graph.scale = 1; graph.x = 300; graph.y = 40; }
  for (let i = 0; i < frames; i += 1) {
    await new Promise(requestAnimationFrame);
    if (kind === "zoom") graph.zoom(i % 2 ? 1.25 : 0.8); else graph.pan(i % 2 ? 40 : -30, -10);
  }
  await new Promise(requestAnimationFrame);
}"""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one report takes."""

    name: str
    units: int
    size_bytes: int
    first_paint_ms: float
    """By the clock on the wall, from navigation on."""
    drawn_cpu_ms: float
    """Processor time until the network is drawn."""
    pan_cpu_ms: float
    zoom_cpu_ms: float
    whole_cpu_ms: float
    """A frame of panning with all units in view."""


def drawn_view(count: int) -> RunView:
    """Return a run of so many units: a chain with skips, every ninth unit raised."""
    units = []
    for index in range(count):
        sources = {index - 1 - (2 if index % 7 == 0 and index > 7 else 0)} if index else set()
        sources |= {index - 4} if index % 4 == 0 and index > 4 else set()
        raised = index % 9 == 4
        units.append(
            NetworkUnit(
                name=f"backbone/stage{index // 100}/block{index}/conv",
                ops="Conv + Relu",
                nodes=(f"block{index}/conv", f"block{index}/relu"),
                inputs=tuple(sorted(sources)),
                target="vsi:v853",
                precision="i16" if raised else "i8pc",
                bits=16 if raised else 8,
                partition=0,
                role="culprit" if raised else "",
                reason="breaks: one scale for ranges 600 times apart" if raised else "",
                noise=(index % 11) / 10,
                noise_reason=f"tensor 't{index}' spans [0, 11.5], step 0.045",
                latency_ns=1000.0 * (index % 13 + 1),
                source="fitted",
                macs=204800,
                shape='f32["N", 32, 20, 20]',
                low=0.0,
                high=11.5,
                channels=tuple(round(0.01 * 1.2**channel, 4) for channel in range(32)),
                score_without=0.5 if raised else None,
            )
        )
    network = DrawnNetwork(
        tuple(units), (), (NetworkPart(0, "vsi:v853", count, 9e4),), (NetworkPoint(1e5, 0, 0.9, True, True),), 5e4
    )
    page = Page(f"a drawn network of {count} units", (Prose("Why", ("drawn by a benchmark",)),), "Met.", Tone.GOOD)
    return RunView(f"{count} units", page, network, ())


def measure(runs: Sequence[RunView], rounds: int) -> list[Shown]:
    """Return what each run takes, the median of some rounds."""
    found = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for run in runs:
            path = Path(folder) / "report.html"
            path.write_text(runs_html([run]), encoding="utf-8")
            rows = [_once(browser, run, path) for _ in range(rounds)]
            middle = sorted(rows, key=lambda row: row.whole_cpu_ms)[rounds // 2]
            found.append(middle)
        browser.close()
    return found


def _once(browser: Any, run: RunView, path: Path) -> Shown:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    before = _cpu_ms()
    page.goto(path.as_uri())
    while not page.evaluate("window.dovetailGraphs?.every((graph) => graph.frames > 0) ?? false"):
        page.wait_for_timeout(20)
    drawn = _cpu_ms() - before
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    first = float(page.evaluate(paint))
    pan, zoom, whole = (_a_frame(page, kind) for kind in ("pan", "zoom", "whole"))
    page.close()
    return Shown(run.page.title, len(run.network.units), path.stat().st_size, first, drawn, pan, zoom, whole)


def _a_frame(page: BrowserPage, kind: str) -> float:
    page.evaluate(_MOVE, [2, kind])
    before = _cpu_ms()
    page.evaluate(_MOVE, [_FRAMES, kind])
    return (_cpu_ms() - before) / _FRAMES


def _cpu_ms() -> float:
    """Return the processor time that Chromium's processes have taken."""
    total = 0.0
    for child in psutil.Process(os.getpid()).children(recursive=True):
        try:
            if "chrom" in child.name():
                times = child.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total * 1e3


def cells(rows: Sequence[Shown]) -> list[tuple[str, ...]]:
    """Return a line for each report."""
    return [
        (
            *(row.name, str(row.units), f"{row.size_bytes / 1e6:.2f} MB"),
            *(f"{value:.0f} ms" for value in (row.first_paint_ms, row.drawn_cpu_ms)),
            *(f"{value:.1f} ms" for value in (row.pan_cpu_ms, row.zoom_cpu_ms, row.whole_cpu_ms)),
        )
        for row in rows
    ]


def page_text(rows: Sequence[Shown]) -> str:
    """Return the page."""
    return f"""# What a report costs a browser

Made by `python benchmarks/report_browser.py RUN_FOLDER... --page`; do not edit.
[How to read a report](../how-to/report.md).

{"; ".join(machine.facts())}

Headless Chromium, 1200 x 900, without a graphics processor. Processor time is that of all of its processes together,
from the opening of the page until the network is drawn, and for each of {_FRAMES} frames of panning and of zooming at
full size, and of panning with the whole network in view. 33 ms a frame are 30 frames a second on one processor. The
first paint is by the clock on a machine that did other things as well (see the load average).

{markdown(_HEADS, cells(rows))}
"""


def main() -> None:
    """Measure, and show or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN_FOLDER", help="folders of tune")
    parser.add_argument("--units", type=int, default=2000, help="units of a drawn network")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is opened")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", nargs="?", const=_PAGE, type=Path, metavar="FILE", help="write the page")
    options = parser.parse_args()
    rows = measure([*map(load_view, options.runs), drawn_view(options.units)], options.rounds)
    if options.page is not None:
        options.page.write_text(page_text(rows), encoding="utf-8")
    elif options.json:
        json.dump([asdict(row) for row in rows], sys.stdout, indent=1)
    else:
        print(text(_HEADS, cells(rows)))


if __name__ == "__main__":
    main()
