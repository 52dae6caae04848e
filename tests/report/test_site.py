"""The report as one HTML file, clicked through in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
from browser import open_browser, wait_until_drawn

from dovetail.errors import DovetailError
from dovetail.report import Facts, Page, Picture, Pictures, Prose, Table, Tone
from dovetail.report.network import DrawnNetwork, NetworkBorder, NetworkPart, NetworkPoint, NetworkUnit
from dovetail.report.page import flexible, right
from dovetail.report.site import runs_html
from dovetail.report.view import RunView, load_view
from dovetail.seal import unsealed

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8ffff3f0005fe02fe"
    "a7c1a5e60000000049454e44ae426082"
)
HOSTILE = "</script><!-- & \"'<b>"


def unit(index: int, inputs: tuple[int, ...], **more: Any) -> NetworkUnit:
    """Return a unit with some figures."""
    raised = index % 9 == 4
    given: dict[str, Any] = {
        "name": f"block{index}/conv",
        "ops": "Conv + Relu" if index % 3 else "Add",
        "nodes": (f"block{index}/conv", f"block{index}/relu"),
        "inputs": inputs,
        "target": "cpu" if index % 17 == 16 else "vsi:v853",
        "precision": "i16" if raised else "i8pc",
        "bits": 16 if raised else 8,
        "partition": 0,
        "role": "culprit" if raised else "",
        "reason": "breaks: one scale for ranges 600 times apart" if raised else "",
        "noise": (index % 11) / 10,
        "noise_reason": f"tensor 't{index}' spans [0, 11.5], step 0.045, but index 37 of axis 1 has an RMS of 0.00042",
        "latency_ns": 1000.0 * (index % 13 + 1),
        "source": "fitted: roofline fitted to a performance model on generated operators",
        "macs": 204800,
        "shape": 'f32["N", 32, 20, 20]',
        "low": 0.0,
        "high": 11.5,
        "channels": tuple(round(0.01 * 1.2**channel, 4) for channel in range(32)),
        "score_without": 0.5 if raised else None,
    }
    return NetworkUnit(**{**given, **more})


def network(count: int) -> DrawnNetwork:
    """Return a chain with branches, skips and joins."""
    units = [unit(0, ())]
    for index in range(1, count):
        sources = {index - 1 - (2 if index % 7 == 0 and index > 7 else 0)}
        sources |= {index - 4} if index % 4 == 0 and index > 4 else set()
        units.append(unit(index, tuple(sorted(sources))))
    return DrawnNetwork(
        units=tuple(units),
        borders=(NetworkBorder("t15", "vsi:v853@i8pc", "cpu@fp32", 2048, 8000.0),),
        parts=(NetworkPart(0, "vsi:v853", count, 90000.0), NetworkPart(1, "cpu", 1, 4000.0)),
        points=(NetworkPoint(1e5, 0, 0.1, False, False), NetworkPoint(2e5, 3, 0.9, True, True)),
        switch_ns=50000.0,
    )


def view(count: int = 40, name: str = "one") -> RunView:
    """Return a run."""
    blocks = (
        Facts("", (("goal", "top1: drop at most 1 %"), ("", "and more"))),
        Table("Scores", (flexible("split"), right("float")), (("search", "0.97"), (HOSTILE, "1")), "a note"),
        Prose("Why", ("because", HOSTILE)),
        Pictures("Pictures", (Picture("a picture", PNG),), "note"),
    )
    return RunView(name, Page("A network", blocks, "Met: nothing is lost.", Tone.GOOD), network(count), ("again",))


def moved(run: RunView, index: int) -> RunView:
    """Return the run with one unit elsewhere."""
    units = list(run.network.units)
    units[index] = replace(units[index], target="cpu", precision="fp32")
    return replace(run, name="other", network=replace(run.network, units=tuple(units)))


def test_a_run_comes_back_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(view().to_json())
    again = load_view(tmp_path)
    assert again == view()
    assert load_view(tmp_path / "report.json") == again


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": [{"block": "script"}]},
        {"network": {}},
        {"tone": "loud"},
        {"verdict": 3},
        {"kind": "dovetail-plan"},
        {"reproduce": None},
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    document = unsealed(json.loads(view().to_json()))
    (tmp_path / "report.json").write_text(json.dumps({**document, **change}))
    with pytest.raises(DovetailError):
        load_view(tmp_path)


def test_a_figure_beyond_any_float_is_refused(tmp_path: Path) -> None:
    document = unsealed(json.loads(view().to_json()))
    document["network"]["units"][3]["latency_ns"] = 10**350
    (tmp_path / "report.json").write_text(json.dumps(document))
    with pytest.raises(DovetailError, match="malformed"):
        load_view(tmp_path)


def test_units_that_read_what_comes_later_are_refused(tmp_path: Path) -> None:
    document = unsealed(json.loads(view().to_json()))
    document["network"]["units"][3]["inputs"] = [7]
    (tmp_path / "report.json").write_text(json.dumps(document))
    with pytest.raises(DovetailError, match="does not come before"):
        load_view(tmp_path)


def test_sizes_stay_small() -> None:
    assert len(runs_html([view(300)]).encode()) < 2_000_000
    assert len(runs_html([view(2000)]).encode()) < 5_000_000


def test_no_text_ends_the_data_and_nothing_is_fetched() -> None:
    run = view()
    units = (replace(run.network.units[0], name=HOSTILE), *run.network.units[1:])
    text = runs_html([replace(run, network=replace(run.network, units=units))])
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert json.loads(data)[0]["units"][0]["name"] == HOSTILE
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)=["'](?!data:image/png)""", text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """Give a page that fails the test where the console complains."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    found = context.new_page()
    complaints: list[str] = []
    found.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on(
        "request",
        lambda request: None if request.url.startswith(("file:", "data:")) else complaints.append(request.url),
    )
    yield found
    context.close()
    assert complaints == []


def shown(page: Any, runs: list[RunView], folder: Path) -> None:
    (folder / "report.html").write_text(runs_html(runs), encoding="utf-8")
    page.goto((folder / "report.html").as_uri())
    wait_until_drawn(page)


def center_of(page: Any, index: int, graph: int = 0) -> tuple[float, float]:
    """Return where a unit is on the screen."""
    x, y = page.evaluate(
        "([g, i]) => { const o = window.dovetailGraphs[g], b = o.boxes[i], r = o.canvas.getBoundingClientRect();"
        " return [r.left + o.x + b.x * o.scale, r.top + o.y + b.y * o.scale]; }",
        [graph, index],
    )
    return float(x), float(y)


@pytest.mark.slow
def test_a_reader_walks_through(page: Any, tmp_path: Path) -> None:
    shown(page, [view()], tmp_path)
    assert page.inner_text("main p.verdict") == "Met: nothing is lost."
    page.mouse.click(*center_of(page, 2))
    assert page.inner_text(".details h3") == "block2/conv"
    details = page.inner_text(".details")
    assert "Conv + Relu" in details
    assert "3.00 us" in details
    assert page.locator(".details svg rect").count() == 32
    page.click("text=Next raised")
    assert page.inner_text(".details h3") == "block4/conv"
    assert "600 times apart" in page.inner_text(".details")
    page.fill("input[name=unit]", "block17")
    page.keyboard.press("Enter")
    assert page.inner_text(".details h3") == "block17/conv"
    page.fill("input[name=unit]", "no such unit")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('input[name=unit]').validity.customError")
    page.click("summary")
    page.click(".units button >> nth=30")
    assert page.inner_text(".details h3") == "block30/conv"


@pytest.mark.slow
def test_colours_follow_what_is_chosen(page: Any, tmp_path: Path) -> None:
    shown(page, [view()], tmp_path)
    legends = {}
    for name in ("device", "precision", "noise", "time"):
        page.select_option("select[name=color]", name)
        fills = page.evaluate("window.dovetailGraphs[0].fill")
        legends[name] = page.locator(".legend >> nth=0").inner_text()
        units = view().network.units
        columns: dict[str, list[Any]] = {
            "device": [item.target for item in units],
            "precision": [item.precision for item in units],
            "noise": [item.noise for item in units],
            "time": [item.latency_ns for item in units],
        }
        of = columns[name]
        assert len(set(fills)) == len(set(of))
        assert len(set(zip(fills, of, strict=True))) == len(set(of))
    assert "vsi:v853" in legends["device"]
    assert "13.00 us" in legends["time"]


@pytest.mark.slow
@pytest.mark.parametrize("backwards", [False, True])
def test_a_device_has_one_colour_on_the_page(page: Any, tmp_path: Path, backwards: bool) -> None:
    run = view()
    parts = run.network.parts[:: -1 if backwards else 1]
    shown(page, [replace(run, network=replace(run.network, parts=parts))], tmp_path)
    page.select_option("select[name=color]", "device")
    keys = page.evaluate(
        "[...document.querySelectorAll('.legend li')]"
        ".map(item => [item.innerText, getComputedStyle(item.children[0]).backgroundColor])"
    )
    targets = {item.target for item in view().network.units}
    colours = {name: {hue for text, hue in keys if text == name} for name in targets}
    assert all(len(hues) == 1 for hues in colours.values()), colours
    assert sum(text in targets for text, _ in keys) > len(targets), "the timeline has a legend too"


@pytest.mark.slow
def test_the_keyboard_does_all(page: Any, tmp_path: Path) -> None:
    shown(page, [view()], tmp_path)
    page.focus("canvas")
    page.keyboard.press("n")
    assert page.inner_text(".details h3") == "block0/conv"
    page.keyboard.press("n")
    assert page.inner_text(".details h3") == "block1/conv"
    page.keyboard.press("p")
    assert page.inner_text(".details h3") == "block0/conv"
    page.keyboard.press("c")
    assert page.inner_text(".details h3") == "block4/conv"
    before = page.evaluate("(({x, y, scale}) => [x, y, scale])(window.dovetailGraphs[0])")
    for key in ("ArrowLeft", "ArrowUp", "+"):
        page.keyboard.press(key)
    after = page.evaluate("(({x, y, scale}) => [x, y, scale])(window.dovetailGraphs[0])")
    assert after[2] == pytest.approx(before[2] * 1.25)
    page.keyboard.press("0")
    assert page.evaluate(
        "(() => { const g = window.dovetailGraphs[0];"
        " return g.boxes.every((b) => b.y * g.scale + g.y >= 0 && b.y * g.scale + g.y <= g.height); })()"
    )


@pytest.mark.slow
def test_dark_mode_follows_the_reader_and_the_button(page: Any, tmp_path: Path) -> None:
    shown(page, [view()], tmp_path)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert light != dark
    page.click("#theme")
    assert page.evaluate(ground) == light
    page.click("#theme")
    assert page.evaluate(ground) == dark


@pytest.mark.slow
def test_two_runs_stand_beside_each_other(page: Any, tmp_path: Path) -> None:
    shown(page, [view(), moved(view(), 7)], tmp_path)
    assert "block7/conv" in page.inner_text("main >> css=table >> nth=1")
    assert page.evaluate("window.dovetailGraphs.length") == 2
    page.select_option("[data-run='1'] select", "difference")
    fills = page.evaluate("window.dovetailGraphs[1].fill")
    assert [index for index, fill in enumerate(fills) if fill != fills[0]] == [7]
    page.evaluate("window.dovetailGraphs[1].select(7)")
    assert "vsi:v853@i8pc" in page.inner_text("[data-run='1'] .details")


@pytest.mark.slow
def test_a_phone_needs_no_sideways_scrolling(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, is_mobile=True, has_touch=True)
    page = context.new_page()
    shown(page, [view()], tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.touchscreen.tap(*center_of(page, 1))
    assert page.inner_text(".details h3") == "block1/conv"
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(scheme: str, page: Any, tmp_path: Path) -> None:
    axe = needs.package("axe_playwright_python.sync_playwright").Axe()
    page.emulate_media(color_scheme=scheme)
    # Axe is handed to the page by the test, which the report's own policy would refuse.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", runs_html([view(), moved(view(), 7)]))
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    page.goto((tmp_path / "report.html").as_uri())
    page.click("summary >> nth=0")
    page.evaluate("window.dovetailGraphs[0].select(4)")
    found = axe.run(page).response["violations"]
    assert [
        (item["id"], item["nodes"][0]["html"][:100]) for item in found if item["impact"] in ("serious", "critical")
    ] == []


@pytest.mark.slow
def test_two_thousand_units_are_drawn_where_they_are_seen(page: Any, tmp_path: Path) -> None:
    """Count work: a frame touches the units in view, however many there are."""
    shown(page, [view(2000)], tmp_path)
    drawn = page.evaluate(
        "(() => { const g = window.dovetailGraphs[0]; let count = 0; const fill = g.context.fillRect;"
        " g.context.fillRect = function (...a) { count += 1; return fill.apply(this, a); };"
        " g.scale = 1; g.paint(); const near = count; g.fit(); count = 0; g.paint(); return [near, count]; })()"
    )
    assert 0 < drawn[0] < 60
    assert drawn[1] == 2000
    page.mouse.move(*center_of(page, 0))
    page.click("text=Next raised")
    assert page.inner_text(".details h3") == "block4/conv"
