"""The pages of docs/ as a site: `make docs`. They are plain Markdown; Sphinx adds sidebar, search and checked links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dovetail import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Dovetail"
author = "The Dovetail authors"
copyright = author  # noqa: A001  # Sphinx's own name for it.
version = release = __version__
extensions = ["myst_parser"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["how-to/acuity/*", "how-to/fastdeploy/*"]
html_theme = "furo"
html_title = f"Dovetail {version}"
html_copy_source = False
# Blocks without a language are what a terminal shows.
highlight_language = "none"


def _add_sidebar(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to the first page the tree that Sphinx wants: the links of each of its sections, in their order."""
    if page == "index":
        source[0] += "\n" + "\n".join(_tree(*section) for section in sections(source[0]))


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Return the second-level headings of a page, each with the pages that its list links to."""
    found = [part.partition("\n") for part in re.split(r"^## ", text, flags=re.M)[1:]]
    return [(head, re.findall(r"^- .*?\]\(([^)#:]+)\.md\)", body, flags=re.M)) for head, _, body in found]


def _tree(caption: str, pages: list[str]) -> str:
    return "\n".join(("```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""))


def setup(app: Sphinx) -> None:
    """Join the events of Sphinx."""
    app.connect("source-read", _add_sidebar)
