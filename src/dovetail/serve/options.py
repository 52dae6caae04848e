"""What a server is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dovetail.errors import RemoteError
from dovetail.serve.access import ServerTls, is_loopback
from dovetail.serve.limits import ServeLimits


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How a folder of bundles is served.

    Raises RemoteError where another machine could reach the server without TLS, or without showing who it is; unless
    `insecure` says that this is meant.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8000
    """Of REST; 0 takes a free one."""
    grpc_port: int = 8001
    token: str | None = field(default=None, repr=False)
    tls: ServerTls | None = None
    insecure: bool = False
    changes: bool = True
    """Whether peers may load, unload and upload models."""
    limits: ServeLimits = field(default_factory=ServeLimits)

    def __post_init__(self) -> None:
        if self.tls is not None:
            self.tls.check()
        if self.insecure or is_loopback(self.host):
            return
        if self.tls is None:
            raise RemoteError(
                f"{self.host}: other machines can reach it, and there is no TLS.",
                hint="Give a certificate and its key, or listen on 127.0.0.1.",
                option="tls_cert",
            )
        if self.token is None and self.tls.client_ca is None:
            raise RemoteError(
                f"{self.host}: other machines can reach it, and nothing says who may ask.",
                hint="Give a token, or the authority of clients' certificates.",
                option="token_file",
            )
