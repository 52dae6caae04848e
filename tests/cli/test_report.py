"""dovetail report, and the report that a search writes, as a reader sees them."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from browser import open_browser, wait_until_drawn
from markdown_it import MarkdownIt

from dovetail.report.markdown import page_markdown
from dovetail.report.network import DrawnNetwork
from dovetail.report.page import Column, Facts, Page, Picture, Pictures, Prose, Table
from dovetail.report.schema import runs_document, runs_schema
from dovetail.report.view import RunView, load_view

from .conftest import Said, Tiny

Run = Callable[..., Said]


def test_the_report_of_a_run_is_what_the_search_wrote(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run("report", tiny.folder / "tuned", "-o", tmp_path / "report.html", "--json")
    assert (said.code, said.err) == (0, "")
    assert (tmp_path / "report.html").read_text() == (tiny.folder / "tuned" / "report.html").read_text()
    result = json.loads((tiny.folder / "tuned" / "result.json").read_text())
    (told,) = json.loads(said.out)["runs"]
    assert (told["name"], told["verdict"]) == ("tuned", f"{result['summary']}.")


def test_what_is_printed_is_as_the_schema_says(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run("report", "--schema")
    assert (said.code, said.err) == (0, "")
    schema = json.loads(said.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    tuned = tiny.folder / "tuned"
    document = json.loads(run("report", tuned, tuned, "-o", tmp_path / "report.html", "--json").out)
    validator.validate(document)
    assert len(document["runs"]) == 2
    assert document["runs"][0]["network"]["units"]
    # A schema that takes anything says nothing: what is gone, new or of another type is refused.
    for spoil in (
        lambda one: one.pop("output"),
        lambda one: one.update(more=1),
        lambda one: one["runs"][0]["network"]["units"][0].pop("name"),
        lambda one: one["runs"][1]["blocks"][0].update(block="other"),
        lambda one: one["runs"][1].update(verdict=3),
    ):
        other = copy.deepcopy(document)
        spoil(other)
        assert not validator.is_valid(other)


def test_every_picture_and_sentence_of_a_page_has_a_schema() -> None:
    page = Page("a", (Pictures("b", (Picture("c", b"png"),)), Prose("d", ("e",)), Facts("f", (("g", "h"),))), "i")
    view = RunView("j", page, DrawnNetwork((), (), (), (), 0.0))
    jsonschema.Draft202012Validator(runs_schema()).validate(json.loads(json.dumps(runs_document([view], "k", 1))))


@pytest.mark.parametrize("ending", ["md", "txt"])
def test_a_report_in_text_has_the_verdict_first_and_every_row(
    ending: str, tiny: Tiny, run: Run, tmp_path: Path
) -> None:
    target = tmp_path / f"report.{ending}"
    assert run("report", tiny.folder / "tuned", "-o", target).code == 0
    text = target.read_text()
    view = load_view(tiny.folder / "tuned")
    flat = " ".join(text.replace("\\", "").split())
    assert flat.index(view.page.verdict) < 200
    for block in view.page.blocks:
        if isinstance(block, Table) and ending == "md":
            rows = [line for line in text.splitlines() if line.startswith("| ")]
            for row in block.rows:
                assert any(all(cell in line.replace("\\", "") for cell in row) for line in rows), row
        assert block.title in flat


def test_markdown_shows_texts_as_they_are() -> None:
    nasty = "a|b `c` *d* _e_ <script> [x](y) # \\ & \x1b\n"
    table = Table("t|t", (Column("one"), Column("two", right=True)), ((nasty, "1"),), note=nasty)
    lines = page_markdown(Page(nasty, (table,))).splitlines()
    html = "".join(MarkdownIt().enable("table").render("\n".join(lines)))
    assert "<script>" not in html
    assert html.count("<td") == 2
    assert "<em>" not in html
    assert "<a " not in html
    assert "a|b `c` *d* _e_ &lt;script&gt; [x](y) # \\ &amp; \\x1b\\n" in html


def test_an_ending_that_no_form_has_is_refused(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    said = run("report", tiny.folder / "tuned", "-o", tmp_path / "report.pdf")
    assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1)
    said = run("report")
    assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1)


def test_the_time_that_is_drawn_is_that_of_the_tables(tiny: Tiny) -> None:
    network = load_view(tiny.folder / "tuned").network
    units = sum(unit.latency_ns or 0.0 for unit in network.units)
    borders = sum(item.latency_ns for item in network.borders)
    whole = units + borders + (len(network.parts) - 1) * network.switch_ns
    proof = json.loads((tiny.folder / "tuned" / "result.json").read_text())["proof"]
    assert whole == pytest.approx(proof["latency_ns"], rel=1e-5)


def test_bad_input_is_one_line(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    shutil.copy(tiny.folder / "tuned" / "report.json", tmp_path)
    (tmp_path / "report.json").write_bytes((tmp_path / "report.json").read_bytes()[:-40])
    for call in (
        ("report", tmp_path, "-o", tmp_path / "r.html"),
        ("report", tiny.bundle, "-o", tmp_path / "r.html"),
        ("report", tiny.folder / "tuned", "-o", tiny.model),
        ("report", tmp_path / "none", "-o", tmp_path / "r.html"),
    ):
        said = run(*call)
        assert (said.code, said.out) == (2, ""), call
        assert len(said.err.splitlines()) == 1
        assert not (tmp_path / "r.html").exists()


@pytest.mark.slow
def test_a_reader_sees_every_unit_and_the_verdict_first(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    tuned = tiny.folder / "tuned"
    complaints: list[str] = []
    with open_browser() as browser:
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((tuned / "report.html").as_uri())
        wait_until_drawn(page)
        result = json.loads((tuned / "result.json").read_text())
        assert page.inner_text("main").startswith(result["summary"])
        page.click("summary")
        names = page.locator(".units button").all_inner_texts()
        assert names == list(json.loads((tuned / "run.json").read_text())["units"])
        for index, name in enumerate(names):
            page.click(f".units button >> nth={index}")
            assert page.inner_text(".details h3") == name
    assert complaints == []
