"""dovetail board add: give a board a name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb


@dataclass(frozen=True, kw_only=True)
class BoardAdd(Verb):
    """Give a board a name for `--on`, and keep what it wants to be shown.

    The token is copied from its file into the configuration of this user, which nobody else may read; certificates
    stay where they are.
    """

    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the board.", show_default=False)]
    url: Annotated[
        str, typer.Argument(metavar="URL", help="grpc://HOST:PORT, or grpcs:// for TLS.", show_default=False)
    ]
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token; mode 0600.")
    ] = None
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="Who signed the server's certificate (PEM)."),
    ] = None
    cert: Annotated[Path | None, typer.Option("--cert", metavar="FILE", help="Certificate to show (PEM).")] = None
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Its key (PEM).")] = None
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Send the token without TLS: anybody on the way can read it.")
    ] = False

    def run(self, screen: Screen) -> Answer:
        from dovetail.oip.token import read_token
        from dovetail.remote import BoardAccess, add_board
        from dovetail.report.page import Facts, Page

        token = None if self.token_file is None else read_token(self.token_file)
        add_board(self.name, BoardAccess(self.url, token, self.ca, self.cert, self.key, self.insecure))
        facts = (("name", self.name), ("address", self.url), ("token", "kept" if token else "none"))
        document = {"name": self.name, "url": self.url, "token": token is not None}
        return Answer(document, Page("Board", (Facts("", facts),)))
