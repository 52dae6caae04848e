"""A newcomer's way is what README.md says, and its record has the commands of today."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

needs.package("playwright.sync_api")

from newcomer import Fetched, Step, Walked, demo_way, fetched, own_way, shown_commands, sums  # noqa: E402
from zoo.browser import Opened, chromium_path, open_report  # noqa: E402

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OTHER = """# Some tool

`some --data a/`, then `dovetail tune net.onnx --data mine/ --target cpu`

## Two commands

```console
$ make ready
$ make show    # draws it, writes shown-out/
$ make check
```

## Your own model

Text.

```console
$ pip install .
  (what it says)
$ dovetail inspect net.onnx  # a look
```
"""


def test_commands_are_those_of_the_text() -> None:
    assert shown_commands(OTHER, "Your own model") == [
        ("pip install .", ""),
        ("dovetail inspect net.onnx", "a look"),
    ]
    assert demo_way(OTHER) == (["make ready", "make show"], "shown-out/report.html")
    commands, _ = own_way(OTHER)
    assert commands[-1] == "dovetail tune net.onnx --data mine/ --target cpu"


def test_a_text_without_them_is_an_error() -> None:
    with pytest.raises(LookupError, match="no console block"):
        demo_way("# Some tool\n")
    with pytest.raises(LookupError, match="said to write"):
        demo_way(OTHER.replace("writes shown-out/", ""))
    with pytest.raises(LookupError, match="shows no tuning"):
        own_way(OTHER.replace("--data mine/", ""))


def test_the_record_has_the_commands_of_the_readme() -> None:
    record = (ROOT / "docs" / "reference" / "newcomer.md").read_text(encoding="utf-8")
    for commands, report in (demo_way(README), own_way(README)):
        for command in commands:
            assert f"| `$ {command}` |" in record
        assert f"`open {report}: until the network is drawn`" in record
    assert "://" not in record


def test_packages_are_counted_by_where_they_came_from() -> None:
    log = """2026-01-01T10:00:00,1 Collecting one
2026-01-01T10:00:00,2   Downloading one-1.0-py3-none-any.whl.metadata (2 kB)
2026-01-01T10:00:00,3   Downloading one-1.0-py3-none-any.whl (2 kB)

2026-01-01T10:00:00,4 Processing /a/b/two-1.0-py3-none-any.whl
2026-01-01T10:00:00,5   Using cached three-1.0-py3-none-any.whl.metadata (2 kB)
2026-01-01T10:00:00,6 Using cached three-1.0-py3-none-any.whl (2 kB)
2026-01-01T10:00:00,7 Processing /a/dovetail
"""
    assert fetched(log) == Fetched(downloaded=1, from_folders=1, cached=1)


def _walked(seconds: float, *, complaints: tuple[str, ...] = (), colors: int = 9) -> Walked:
    opened = Opened(0.5, 0.5, 100.0, "met", colors, complaints)
    return Walked(
        "Two commands", "3.11", 1, (Step("$ git clone", 1.0), Step("more", seconds)), Fetched(1, 0, 0), opened
    )


def test_the_goal_is_missed_by_time_by_a_complaint_and_by_an_empty_drawing() -> None:
    rows = [_walked(10.0), _walked(200.0), _walked(10.0, complaints=("no",)), _walked(10.0, colors=1)]
    assert [row.is_good for row in rows] == [True, False, False, False]
    assert sums(rows) == [("Two commands", "3.11", "4", "1", "11 s", "201 s", "1 of 4")]


@pytest.mark.slow
def test_a_browser_says_what_is_wrong_with_a_page(tmp_path: Path) -> None:
    if chromium_path() is None:
        needs.without("chromium", "there is no Chromium on the PATH")
    page = tmp_path / "report.html"
    page.write_text(
        "<p class='verdict'>likely met</p><canvas width=9 height=9></canvas><img src='gone.png'><script>"
        "const canvas = document.querySelector('canvas'); canvas.getContext('2d').fillRect(0, 0, 3, 3);"
        "window.dovetailGraphs = [{canvas, frames: 1}]; console.log('said'); throw new Error('thrown');</script>",
        encoding="utf-8",
    )
    found = open_report(page)
    assert found.verdict == "likely met"
    assert found.colors == 2
    assert found.first_paint_ms > 0
    assert "said" in found.complaints
    assert "thrown" in found.complaints
    assert any(said.startswith("asked for ") and said.endswith("gone.png") for said in found.complaints)
