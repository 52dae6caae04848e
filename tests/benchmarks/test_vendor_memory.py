"""The vendor's results that are kept: those of another SDK are not ours."""

from __future__ import annotations

from pathlib import Path

import vendor_table
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import part_of
from dovetail.ir.precision import Precision


def test_results_are_kept_by_the_contents_of_the_sdk(tmp_path: Path) -> None:
    found = vendor_table.prepared(0, Precision.U8)
    program = lower_graph(found.graph, part_of(VSI_PROFILES[0]))
    old, same, new = (vendor_table.Memory(tmp_path, sdk) for sdk in ("0123", "0123", "4567"))
    path = old.path(program, found, alone=False)
    old.write(path, "refused by the old one")
    assert same.read(same.path(program, found, alone=False)) == "refused by the old one"
    assert new.read(new.path(program, found, alone=False)) is None
