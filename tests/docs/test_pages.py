"""The pages themselves: links lead somewhere, every page is on the first one, what is generated is up to date."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def _prose(page: Path) -> str:
    """Return a page without its code."""
    text = re.sub(r"^(```+)[^\n]*\n.*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda found: "" if "](" in found[0] else found[0], text)


def _anchors(page: Path) -> set[str]:
    """Return the anchors that a plain git host gives the headings of a page."""
    heads = re.findall(r"^#+ (.+)$", _prose(page), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert ROOT in target.parents, link
        if anchor:
            assert anchor in _anchors(target), link


def test_the_first_page_names_every_page_once() -> None:
    found = runpy.run_path(str(DOCS / "conf.py"))["sections"]((DOCS / "index.md").read_text(encoding="utf-8"))
    named = [page for _, pages in found for page in pages]
    assert len(named) == len(set(named))
    assert set(named) == {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES} - {"index"}


@pytest.mark.parametrize("name", ["make_api_reference", "make_expectations"])
def test_generated_pages_are_up_to_date(name: str) -> None:
    done = subprocess.run([sys.executable, DOCS / f"{name}.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run python docs/{name}.py {done.stderr}"


def test_a_figure_of_the_expectations_is_that_of_its_source() -> None:
    """Read by other code than that which wrote the page."""
    expected = (DOCS / "what-to-expect.md").read_text(encoding="utf-8")
    source = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    line = next(line for line in source.splitlines() if line.startswith("| kwt1 | v853 i8pc |"))
    _, _, _, real, low, tuned, _, raised, cpu, *_ = (cell.strip() for cell in line.split("|"))
    row = next(line for line in expected.splitlines() if line.startswith("| kwt1 | V853"))
    assert [cell.strip() for cell in row.split("|")][3:5] == [real, low]
    assert row.endswith(f"| {tuned} | {raised} | {cpu} |")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "dirhtml", str(DOCS), str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    for page in ("tutorial/digits/", "what-to-expect/", "reference/api/", "reference/cli/", "glossary/", "stability/"):
        assert f'href="{page}"' in first
        assert (tmp_path / page / "index.html").is_file()
    assert "toctree" not in first.replace("toctree-", "")


@pytest.mark.slow
def test_a_dead_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_bytes((DOCS / "conf.py").read_bytes())
    (tmp_path / "index.md").write_text("# First\n\n## One\n\n- [two](two.md)\n", encoding="utf-8")
    (tmp_path / "two.md").write_text("# Two\n\n[nothing](three.md)\n", encoding="utf-8")
    call = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "dirhtml", str(tmp_path), str(tmp_path / "site")]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode != 0
    assert "three.md" in done.stderr
