"""What bundles with the vendor's networks need of a board, with or without an SDK here."""

from __future__ import annotations

from pathlib import Path

from boards import NPU, Fitted, small_network, write_samples

import dovetail
from dovetail.backend.protocols import Blob
from dovetail.backends.verisilicon.plugin import GRAPH, VsiBackend
from dovetail.sdk.location import verisilicon_folder


def test_the_part_and_the_sdk_are_needed(tmp_path: Path) -> None:
    bundle = Fitted(small_network()).bundle(write_samples(tmp_path / "x.npz"))
    (part,) = (part for part in bundle.partitions if part.target == NPU)
    # The simulation's blob is the vendor's graph behind a line that says how many threads run it.
    program = part.blob.payload.partition(b"\n")[2]
    abilities = VsiBackend(verisilicon_folder()).abilities()
    assert abilities.needs is not None
    needs = dict(abilities.needs(Blob(GRAPH, program)))
    hardware = dovetail.find_target(NPU).hardware  # type: ignore[attr-defined]
    assert needs["product id"] == f"{hardware.pid:#x}" == "0xee"
    assert needs["VeriSilicon SDK"] == verisilicon_folder().version


def test_what_is_not_here_is_said() -> None:
    unmet = VsiBackend(verisilicon_folder()).abilities().unmet
    assert unmet is not None
    assert unmet({}) == ""
    assert unmet({"product id": "0x1"}) == "a part with product id 0x1"
    assert unmet({"VeriSilicon SDK": "0.0.1"}).startswith("version 0.0.1 of VeriSilicon's SDK, and ")
    assert unmet({"moon": "full"}) == "'moon' (full), which is unknown here"
