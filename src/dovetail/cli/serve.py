"""dovetail serve: bundles over the network."""

from __future__ import annotations

import logging
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dovetail.cli.output import tell
from dovetail.cli.render import Screen
from dovetail.cli.verb import Answer, Verb
from dovetail.errors import RemoteError

if TYPE_CHECKING:
    from dovetail.serve import ServeLimits, ServeOptions
    from dovetail.serve.server import Listening

_MOST_DELAY_MS = 1000.0


@dataclass(frozen=True, kw_only=True)
class Serve(Verb):
    """Serve the bundles of a folder over the Open Inference Protocol (KServe v2): REST and gRPC.

    Every folder in FOLDER that is a bundle is a model of that name. Clients of the protocol ask for health, metadata,
    results, statistics and metrics, and can load, unload and upload models; `--on` of other commands uses it as a
    board. Other machines can reach it only with TLS and a token. It ends on Ctrl-C or SIGTERM, after what is under way.
    """

    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that has bundles in it.", show_default=False)]
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", metavar="N", help="Port of REST; 0 takes a free one.")] = 8000
    grpc_port: Annotated[int, typer.Option("--grpc-port", metavar="N", help="Port of gRPC; 0 takes a free one.")] = 8001
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="The token that clients have to show; mode 0600."),
    ] = None
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate of the server (PEM).")
    ] = None
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key (PEM).")] = None
    client_ca: Annotated[
        Path | None,
        typer.Option("--client-ca", metavar="FILE", help="Who signs certificates that clients have to show (PEM)."),
    ] = None
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines in without TLS or token: anybody may ask.")
    ] = False
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse to load, unload and upload models.")] = False
    queue: Annotated[int, typer.Option("--queue", metavar="N", help="Requests that may wait for a model.")] = 64
    batch_rows: Annotated[
        int,
        typer.Option(
            "--batch-rows", metavar="N", help="Run waiting requests of a model together, up to N rows; 1: no."
        ),
    ] = 1
    batch_delay: Annotated[
        float,
        typer.Option("--batch-delay", metavar="MS", help="How long a request waits for others to be run with."),
    ] = 0.0
    max_request: Annotated[int, typer.Option("--max-request", metavar="MB", help="Largest request that is taken.")] = 64
    max_upload: Annotated[int, typer.Option("--max-upload", metavar="MB", help="Largest upload that is taken.")] = 1024
    peer_requests: Annotated[
        int, typer.Option("--peer-requests", metavar="N", help="Requests that one peer may have under way.")
    ] = 512
    peer_held: Annotated[
        int, typer.Option("--peer-held", metavar="MB", help="What the requests of one peer may hold together.")
    ] = 1024
    peer_rate: Annotated[
        float,
        typer.Option("--peer-rate", metavar="N", help="Requests that one peer may make in a second; 0: any number."),
    ] = 0.0
    peer_bytes: Annotated[
        float,
        typer.Option("--peer-bytes", metavar="MB", help="What one peer may send in a second; 0: any amount."),
    ] = 0.0

    def run(self, screen: Screen) -> Answer:
        from dovetail.report import Page
        from dovetail.report.page import Table, left, right
        from dovetail.serve.describe import statistics_document
        from dovetail.serve.server import run

        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
        repository = run(self._options(), self._say)
        found = [statistics_document(model) for model in repository.served]
        rows = tuple((str(one["name"]), str(one["inference_count"])) for one in found)
        table = Table("Models", (left("model"), right("requests")), rows)
        return Answer({"folder": str(self.folder), "models": found}, Page(f"Served {self.folder}", (table,)))

    def _options(self) -> ServeOptions:
        from dovetail.oip.token import read_token
        from dovetail.serve import ServeOptions, ServerTls

        for name, value in (
            ("queue", self.queue),
            ("batch_rows", self.batch_rows),
            ("max_request", self.max_request),
            ("max_upload", self.max_upload),
            ("peer_requests", self.peer_requests),
            ("peer_held", self.peer_held),
        ):
            if value < 1:
                raise RemoteError(f"{value} is no limit.", hint="Give 1 or more.", option=name)
        for name, rate in (("peer_rate", self.peer_rate), ("peer_bytes", self.peer_bytes)):
            if not 0 <= rate < math.inf:
                raise RemoteError(f"{rate:g} is no rate.", hint="Give 0 for no limit, or more.", option=name)
        if not 0 <= self.batch_delay <= _MOST_DELAY_MS:
            raise RemoteError(f"{self.batch_delay:g} ms is no delay.", hint="Give 0 to 1000.", option="batch_delay")
        if self.batch_delay and self.batch_rows < 2:
            raise RemoteError("requests that are run one by one wait for no others.", option="batch_rows")
        for name, value in (("port", self.port), ("grpc_port", self.grpc_port)):
            if not 0 <= value < 1 << 16:
                raise RemoteError(f"{value} is no port.", hint="Give 0 to 65535.", option=name)
        if (self.tls_cert is None) != (self.tls_key is None) or (self.client_ca is not None and self.tls_cert is None):
            raise RemoteError("TLS needs a certificate and its key.", option="tls_cert")
        tls = None
        if self.tls_cert is not None and self.tls_key is not None:
            tls = ServerTls(self.tls_cert, self.tls_key, self.client_ca)
        return ServeOptions(
            self.folder,
            self.host,
            self.port,
            self.grpc_port,
            None if self.token_file is None else read_token(self.token_file),
            tls,
            self.insecure,
            not self.read_only,
            self._limits(),
        )

    def _limits(self) -> ServeLimits:
        from dovetail.serve import ServeLimits

        return ServeLimits(
            request_bytes=self.max_request << 20,
            upload_bytes=self.max_upload << 20,
            queue=self.queue,
            batch_rows=self.batch_rows,
            batch_delay_s=self.batch_delay / 1e3,
            peer_requests=self.peer_requests,
            peer_held_bytes=self.peer_held << 20,
            peer_calls_per_s=self.peer_rate,
            peer_bytes_per_s=self.peer_bytes * (1 << 20),
        )

    def _say(self, where: Listening) -> None:
        """Say on stderr what is served, and where; one line that scripts can read."""
        entries = where.repository.index()
        for entry in entries:
            if entry.model is None:
                tell(f"not served: {entry.name}: {entry.reason}\n")
        count = sum(entry.model is not None for entry in entries)
        tell(f"serving {count} models at {where.rest} and {where.grpc}\n")
