"""dovetail sdk install: put a vendor's SDK into the user's data folder."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


class Vendor(Enum):
    """The SDKs that can be installed."""

    VERISILICON = "verisilicon"


@dataclass(frozen=True, kw_only=True)
class SdkInstall(Verb):
    """Download VeriSilicon's SDK with its simulator (247 MB, 60 MB kept), build the shim, and test it.

    Nothing is done where it is installed already. VIVANTE_SDK_DIR points at another SDK; with TIM_VX_INSTALL_DIR too
    the shim stands on that TIM-VX. DOVETAIL_VSI_SDK=6.42.0 chooses the older version where both are installed.
    """

    vendor: Annotated[Vendor, typer.Argument(help="The SDK to install.")]
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Take this wheel, or the vsi_sdk.tar.gz inside it, and download nothing."),
    ] = None
    version: Annotated[
        str, typer.Option("--version", metavar="V", help="6.57.1, or 6.42.0 for older drivers and TIM-VX.")
    ] = "6.57.1"
    again: Annotated[bool, typer.Option("--again", help="Install and build even where that has been done.")] = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.cli.texts import one_of
        from dovetail.report.page import Page, Table, flexible, left
        from dovetail.sdk import WHEELS, InstallRequest, install_verisilicon, self_test
        from dovetail.sdk.location import VERSION_VARIABLE

        wheel = WHEELS[one_of("--version", self.version, list(WHEELS))]
        # The self-test runs on what is installed here, not on what was chosen before.
        os.environ[VERSION_VARIABLE] = wheel.version

        with screen.progress("installing", 100) as bar:

            def show(what: str, share: float) -> None:
                if share == 0.0:
                    bar.rename(what)
                bar.advance(int(100 * share))

            request = InstallRequest(self.source, self.again, wheel, progress=show, self_test=self_test)
            made = install_verisilicon(request)
        rows = (
            *(("done", step) for step in made.steps or ("everything was there already",)),
            *((("test", made.self_test),) if made.self_test else ()),
            ("SDK", str(made.folder.sdk)),
            ("shim", str(made.folder.shim)),
            *(("licence" if index == 0 else "", line) for index, line in enumerate(textwrap.wrap(made.note, 80))),
        )
        document = {
            "steps": list(made.steps),
            "self_test": made.self_test,
            "sdk": str(made.folder.sdk),
            "shim": str(made.folder.shim),
            "licence": made.note,
        }
        table = Table("VeriSilicon SDK", (left("what"), flexible("detail")), rows)
        return Answer(document, Page("SDK", (table,)))

    def resume_note(self) -> str:
        return "nothing was installed; what was downloaded is gone."
