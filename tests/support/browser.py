"""A headless browser for tests that look at pages: Playwright with the machine's own Chromium."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import needs
import work


@contextmanager
def open_browser() -> Iterator[Any]:
    """Give a headless Chromium; skip where it or Playwright is missing."""
    api = needs.package("playwright.sync_api")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        needs.without("chromium", "there is no Chromium on the PATH")
    with api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def wait_until_drawn(page: Any) -> None:
    """Wait until every graph of a report is drawn; `wait_for_function` would need eval, which the page forbids."""
    ends = time.monotonic() + work.PATIENCE_S
    while not page.evaluate("window.dovetailGraphs?.every((graph) => graph.frames > 0) ?? false"):
        assert time.monotonic() < ends, "the report was not drawn"
        page.wait_for_timeout(50)
