"""The pages that map other tools' steps name verbs and options that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dovetail.cli.main import GROUPS, VERBS

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
GOLDEN = Path(__file__).parents[1] / "cli" / "golden"


@pytest.mark.parametrize("name", ["from-fastdeploy.md", "from-pegasus.md", "from-tvm.md"])
def test_verbs_and_options_exist(name: str) -> None:
    text = (HOW_TO / name).read_text(encoding="utf-8")
    found = re.findall(r"`dovetail ([^`]+)`", text)
    assert len(found) >= 5
    for command in found:
        words = command.split()
        verb = words[0]
        assert verb in VERBS or (verb in GROUPS and words[1] in GROUPS[verb][1]), command
        help_page = GOLDEN / (f"help-{verb}.txt" if verb in VERBS else f"help-{verb}-{words[1]}.txt")
        if help_page.is_file():
            known = help_page.read_text(encoding="utf-8")
            assert all(word in known for word in words if word.startswith("--")), command
