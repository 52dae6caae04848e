"""The page about the commands is complete and up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.cli.main import GROUPS, VERBS

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_up_to_date() -> None:
    call = [sys.executable, str(DOCS / "make_cli_reference.py"), "--check"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run python docs/make_cli_reference.py {done.stderr}"


@pytest.mark.parametrize(
    "name", [*VERBS, *(f"{group} {name}" for group, (_, verbs) in GROUPS.items() for name in verbs)]
)
def test_every_command_has_a_section_with_an_example(name: str) -> None:
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    section = re.search(rf"^## dovetail {name}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert section is not None
    assert f"$ dovetail {name}" in section[1]
