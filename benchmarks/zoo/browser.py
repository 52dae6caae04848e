"""The machine's own Chromium, and what it says of a page that is opened for the first time."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserType, sync_playwright

_DRAWN_WITHIN_S = 120.0
PAINT_MS = "(performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0)"
"""When the browser painted first, from navigation on; 0 where it has not said so yet."""
DRAWN = f"{PAINT_MS} > 0 && window.dovetailGraphs?.length > 0 && window.dovetailGraphs.every((one) => one.frames > 0)"
"""Whether it has, and every network is drawn."""
_COLORS = """() => Math.max(0, ...window.dovetailGraphs.map(({canvas}) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size;
}))"""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a browser made of a report."""

    start_s: float
    """From nothing to a browser that is there."""
    shown_s: float
    """From navigation until it is painted and the network is drawn."""
    first_paint_ms: float
    """As the browser counts it, from navigation on."""
    verdict: str
    """What it says first."""
    colors: int
    """How many colours the drawing of the network has: of an empty one, one."""
    complaints: tuple[str, ...]
    """What the console said, errors of the page, and what it asked of anybody."""


def chromium_path() -> str | None:
    """Return the machine's own Chromium, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def launch(chromium: BrowserType) -> Browser:
    """Start the machine's own Chromium without a window."""
    return chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])


def open_report(path: Path) -> Opened:
    """Open a report in a browser of its own; raise TimeoutError where it is never drawn."""
    complaints: list[str] = []
    asked: list[str] = []
    begin = time.perf_counter()
    with sync_playwright() as started:
        browser = launch(started.chromium)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        there = time.perf_counter()
        page.goto(path.as_uri())
        while not page.evaluate(DRAWN):
            if time.perf_counter() - there > _DRAWN_WITHIN_S:
                raise TimeoutError(f"{path}: the report was not drawn; the browser said: {'; '.join(complaints)}")
            page.wait_for_timeout(20)
        shown = time.perf_counter()
        others = (f"asked for {url}" for url in asked if url != path.as_uri() and not url.startswith("data:"))
        found = Opened(
            *(
                there - begin,
                shown - there,
                float(page.evaluate(PAINT_MS)),
                page.locator(".verdict").first.inner_text(),
            ),
            *(int(page.evaluate(_COLORS)), (*complaints, *others)),
        )
        browser.close()
    return found
