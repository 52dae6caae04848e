"""Where a board is, and what it wants to be shown."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dovetail.errors import RemoteError

_PORT = 8001


@dataclass(frozen=True, slots=True)
class BoardAccess:
    """How a board is reached: `grpc://host:port`, or `grpcs://` for TLS.

    Raises RemoteError for another address, and where a token would cross a network that can be read.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    ca: Path | None = None
    """Who signed the server's certificate (PEM); without it, whom the system trusts."""
    cert: Path | None = None
    """The certificate to show (PEM), with its key."""
    key: Path | None = None
    insecure: bool = False
    """Whether a token may go without TLS to another machine."""

    def __post_init__(self) -> None:
        where = parse_url(self.url)
        if (self.cert is None) != (self.key is None):
            raise RemoteError(f"{self.url}: a certificate has a key.", option="key")
        if not where.tls and (self.ca is not None or self.cert is not None):
            raise RemoteError(f"{self.url}: certificates are for TLS.", hint="Write grpcs://.")
        if not where.tls and self.token is not None and not self.insecure and not where.loopback:
            raise RemoteError(
                f"{self.url}: the token would go over the network for all to read.", hint="Serve with TLS: grpcs://."
            )


@dataclass(frozen=True, slots=True)
class BoardAddress:
    """The parts of a board's URL."""

    host: str
    port: int
    tls: bool

    @property
    def target(self) -> str:
        """Return what gRPC connects to."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Tell whether it is this machine."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_url(url: str) -> BoardAddress:
    """Return the parts of a board's URL; raise RemoteError for one of another form."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        parts, host, port = urlsplit(""), None, 0
    rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username or "")
    if parts.scheme not in ("grpc", "grpcs") or not host or any(rest):
        raise RemoteError(
            f"'{url[:200]}' is no address of a board.", hint="Write grpc://host:port or grpcs://host:port."
        )
    return BoardAddress(host, port, parts.scheme == "grpcs")
