"""What tests need that not every machine has: the one place where tests are skipped, unless that is forbidden."""

from __future__ import annotations

import importlib
import os
import shutil
from types import ModuleType
from typing import NoReturn

import pytest

from dovetail.sdk import find_verisilicon

REQUIRED = "DOVETAIL_REQUIRE"
"""Names parts, with commas between them, without which a test fails instead of being skipped."""


def without(part: str, reason: str) -> NoReturn:
    """Skip the test, or the module that is being imported, for want of a part; fail it where the part is required."""
    required = {name.strip() for name in os.environ.get(REQUIRED, "").split(",")}
    if part in required:
        pytest.fail(f"{REQUIRED} names '{part}', and it is not here: {reason}", pytrace=False)
    pytest.skip(f"{part}: {reason}", allow_module_level=True)


def package(name: str) -> ModuleType:
    """Return a package of Python that not every machine has; the part is the first word of its name."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        without(name.partition(".")[0].replace("_", "-"), str(error))


def program(name: str, part: str) -> str:
    """Return the path of a program on the PATH."""
    path = shutil.which(name)
    if path is None:
        without(part, f"there is no '{name}' on the PATH")
    return path


def verisilicon() -> None:
    """Ask for VeriSilicon's SDK."""
    sdk = find_verisilicon()
    if not sdk.usable:
        without("vsi", f"{sdk.reason}: run 'dovetail sdk install verisilicon'")
