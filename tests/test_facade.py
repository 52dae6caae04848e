"""The facade."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dovetail


@pytest.mark.parametrize("name", dovetail.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(dovetail, name) is not None


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = dovetail.nothing


def test_verbs_stay_callable_when_packages_of_their_names_are_imported() -> None:
    program = (
        "import dovetail.quantize, dovetail.partition, dovetail\n"
        "from dovetail.quantize import Ranges\n"
        "assert callable(dovetail.quantize) and callable(dovetail.partition)\n"
        "dovetail.tune\n"
        "assert dovetail.quantize.__module__ == 'dovetail.quantize.quantizer'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_import_is_lazy() -> None:
    program = "import sys, dovetail\nassert 'numpy' not in sys.modules\n"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
