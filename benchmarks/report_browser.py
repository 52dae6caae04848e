"""How large a report is, what a browser takes to show it, and whether all of it can be walked through.

python benchmarks/report_browser.py [RUN_FOLDER...] [--units N] [--json] [--page [FILE]]

Frames are counted by the clock at eight zooms, the slowest of which is shown. Processor time is what all of Chromium's
processes take together, so that a busy machine changes little; no frame can take longer than that on a processor of
its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserType, sync_playwright
from playwright.sync_api import Page as BrowserPage

import zoo.machine as machine
from dovetail.report import Page, Prose, Tone
from dovetail.report.network import DrawnNetwork, NetworkPart, NetworkPoint, NetworkUnit
from dovetail.report.site import runs_html
from dovetail.report.view import RunView, load_view
from zoo.browser import DRAWN, PAINT_MS, launch
from zoo.table import markdown, text

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "report.md"
_FRAMES = 60
_ZOOMS = 8
_HEADS = (
    *("report", "units", "size", "first paint", "drawn, processor time", "frames a second, panning", "zooming"),
    *("slowest frame", "processor time of a frame", "units clicked", "console", "serious faults"),
)
_OPEN = """() => {
  const graph = window.dovetailGraphs[0];
  graph.fit();
  const low = graph.scale;
  window.look = (step, steps) => {
    graph.fit();
    const center = graph.boxes[Math.floor(graph.boxes.length / 2)];
    if (step > 0) {
      graph.scale = low * (1 / low) ** (step / (steps - 1));
      graph.x = graph.width / 2 - center.x * graph.scale; graph.y = graph.height / 2 - center.y * graph.scale;
    }
    graph.draw();
  };
}"""
_MOVE = """async ([frames, kind]) => {
  const graph = window.dovetailGraphs[0], times = [await new Promise(requestAnimationFrame)];
  for (let i = 0; i < frames; i += 1) {
    if (kind === "zoom") graph.zoom(i % 2 ? 1.25 : 0.8); else graph.pan(i % 2 ? 40 : -30, -3);
    times.push(await new Promise(requestAnimationFrame));
  }
  return times.slice(1).map((time, index) => time - times[index]);
}"""
_WALK = """() => {
  const graph = window.dovetailGraphs[0], root = graph.root;
  root.querySelector(".units").open = true;
  return new Promise((done) => setTimeout(() => {
    let right = 0;
    root.querySelectorAll(".units button").forEach((button, index) => {
      button.click();
      right += graph.selected === index && root.querySelector(".details h3").textContent === graph.units[index].name;
    });
    done(right);
  }, 0));
}"""
_ON_SCREEN = """(index) => {
  const graph = window.dovetailGraphs[0], box = graph.boxes[index];
  graph.select(index, true);
  graph.selected = -1;
  const frame = graph.canvas.getBoundingClientRect();
  return [frame.left + graph.x + box.x * graph.scale, frame.top + graph.y + box.y * graph.scale];
}"""
_CANVAS_CLICKS = 25
_FIGURES = ("first_paint_ms", "drawn_cpu_ms", "pan_fps", "zoom_fps", "slowest_ms", "frame_cpu_ms")


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
    pan_fps: float
    """By the clock on the wall, at the zoom where it is least."""
    zoom_fps: float
    slowest_ms: float
    """The longest time between two frames of all of them."""
    frame_cpu_ms: float
    """Processor time of a frame, at the zoom where it is most."""
    walked: int
    """Units whose details came when they were clicked in the list."""
    complaints: tuple[str, ...]
    """What the console said."""
    faults: tuple[str, ...]
    """What axe-core calls serious or critical, in the light and in the dark."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Frames of panning or zooming: how many a second, the longest, and processor time of each."""

    fps: float
    slowest_ms: float
    cpu_ms: float


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
    """Return what each run takes: of each figure the median of some rounds, and what any round complained of."""
    found = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        for run in runs:
            path = Path(folder) / "report.html"
            path.write_text(runs_html([run]), encoding="utf-8")
            found.append(_middle([_once(started.chromium, run, path) for _ in range(rounds)]))
    return found


def _middle(rows: Sequence[Shown]) -> Shown:
    figures = {name: statistics.median(getattr(row, name) for row in rows) for name in _FIGURES}
    complaints, faults = (
        tuple(dict.fromkeys(text for row in rows for text in getattr(row, name))) for name in ("complaints", "faults")
    )
    walked = min(row.walked for row in rows)
    return replace(rows[0], **figures, walked=walked, complaints=complaints, faults=faults)


def _once(chromium: BrowserType, run: RunView, path: Path) -> Shown:
    # A browser of its own: processes that end would take their processor time with them.
    browser = launch(chromium)
    # Axe is handed to the page, which the report's own policy would refuse; nothing else needs that.
    context = browser.new_context(viewport={"width": 1200, "height": 900}, bypass_csp=True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    before = _cpu_ms()
    page.goto(path.as_uri())
    while not page.evaluate(DRAWN):
        page.wait_for_timeout(20)
    drawn = _cpu_ms() - before
    first = float(page.evaluate(PAINT_MS))
    page.evaluate(_OPEN)
    pans, zooms = ([_moved(page, kind, step) for step in range(_ZOOMS)] for kind in ("pan", "zoom"))
    walked = _walked(page, run)
    faults = _faults(page)
    browser.close()
    return Shown(
        name=run.page.title,
        units=len(run.network.units),
        size_bytes=path.stat().st_size,
        first_paint_ms=first,
        drawn_cpu_ms=drawn,
        pan_fps=min(item.fps for item in pans),
        zoom_fps=min(item.fps for item in zooms),
        slowest_ms=max(item.slowest_ms for item in (*pans, *zooms)),
        frame_cpu_ms=max(item.cpu_ms for item in (*pans, *zooms)),
        walked=walked,
        complaints=tuple(complaints),
        faults=faults,
    )


def _moved(page: BrowserPage, kind: str, step: int) -> Moved:
    page.evaluate("([step, steps]) => window.look(step, steps)", [step, _ZOOMS])
    page.evaluate(_MOVE, [2, kind])
    before = _cpu_ms()
    times: list[float] = page.evaluate(_MOVE, [_FRAMES, kind])
    return Moved(len(times) / sum(times) * 1e3, max(times), (_cpu_ms() - before) / len(times))


def _walked(page: BrowserPage, run: RunView) -> int:
    """Use every control, click units on the canvas and all of them in the list; return how many came from the list."""
    tools = page.locator("[data-run='0'] .tools")
    for value in ("precision", "noise", "time", "device"):
        tools.locator("select").select_option(value)
    for button in tools.locator("button[data-act]").all():
        button.click()
    units = run.network.units
    tools.locator("input").fill(units[-1].name)
    tools.locator("input").press("Enter")
    assert page.evaluate("window.dovetailGraphs[0].selected") >= 0, "the search finds nothing"
    for index in range(0, len(units), max(1, len(units) // _CANVAS_CLICKS)):
        page.mouse.click(*page.evaluate(_ON_SCREEN, index))
        assert page.evaluate("window.dovetailGraphs[0].selected") == index, units[index].name
    page.click("#theme")
    page.click("#theme")
    return int(page.evaluate(_WALK))


def _faults(page: BrowserPage) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for scheme in ("light", "dark"):
        page.evaluate("(scheme) => { document.documentElement.dataset.theme = scheme; }", scheme)
        for item in Axe().run(page).response["violations"]:
            if item["impact"] in ("serious", "critical"):
                found[f"{scheme}: {item['id']}: {item['nodes'][0]['html'][:100]}"] = None
    return tuple(found)


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
            *(f"{value:.0f}" for value in (row.pan_fps, row.zoom_fps)),
            *(f"{value:.1f} ms" for value in (row.slowest_ms, row.frame_cpu_ms)),
            *(f"{row.walked} of {row.units}", str(len(row.complaints)), str(len(row.faults))),
        )
        for row in rows
    ]


def page_text(rows: Sequence[Shown], rounds: int) -> str:
    """Return the page."""
    return f"""# What a report costs a browser

Made by `python benchmarks/report_browser.py RUN_FOLDER... --page`; do not edit.
[How to read a report](../how-to/report.md).

{"; ".join(machine.facts())}

Headless Chromium, 1200 x 900, without a graphics processor, on a machine that may do other things as well (see the
load average). The first paint is by the clock. So are frames: {_FRAMES} of panning and {_FRAMES} of zooming at each of
{_ZOOMS} zooms, from the whole network in view to full size, and the zoom with the fewest a second; the slowest frame is
that of all {2 * _ZOOMS * _FRAMES}. Processor time is that of all of Chromium's processes together: from the opening of
the page until the network is drawn, and of a frame, at the zoom where it is most. Each report is opened {rounds}
times; figures are medians, complaints those of any time.

Then the report is walked through: every colour and button, the search, about {_CANVAS_CLICKS} units on the canvas, and
every unit in the list, whose details have to come. *console* counts what the console said meanwhile; *serious faults*
is what axe-core calls serious or critical, in the light and in the dark, with every unit in the list.

Goals: a real network under 2 MB and the first paint under 1 s, 2,000 units under 5 MB and 2 s, 30 frames a second.

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
        options.page.write_text(page_text(rows, options.rounds), encoding="utf-8")
    elif options.json:
        json.dump([asdict(row) for row in rows], sys.stdout, indent=1)
    else:
        print(text(_HEADS, cells(rows)))
    for row in rows:
        for said in (*row.complaints, *row.faults):
            print(f"{row.name}: {said}", file=sys.stderr)


if __name__ == "__main__":
    main()
