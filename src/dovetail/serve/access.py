"""Who may ask a server: tokens, TLS, and what it takes to listen beyond this machine."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import RemoteError
from dovetail.oip.failures import Reply, RequestRefused


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Files (PEM) with which a server shows who it is; with `client_ca` peers have to show it too."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def check(self) -> None:
        """Raise RemoteError for a file that is no certificate, or a key that is another's."""
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.cert, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise RemoteError(
                f"{self.cert}, {self.key}: no certificate with its key: {error}.", hint="Give PEM files."
            ) from error


class AccessToken:
    """The secret that peers show as `authorization: Bearer TOKEN`; without one everybody may ask."""

    def __init__(self, token: str | None) -> None:
        # Digests under a key of this process have one length, and their comparison tells nothing of the token.
        self._key = secrets.token_bytes(32)
        self._digest = None if token is None else self._keyed(token.encode())

    def check(self, header: str | bytes | None) -> None:
        """Raise RequestRefused unless a header has the token."""
        if self._digest is None:
            return
        given = header.encode("latin-1", "replace") if isinstance(header, str) else header or b""
        scheme, _, token = given.partition(b" ")
        right = hmac.compare_digest(self._keyed(token.strip()), self._digest)
        if scheme.lower() != b"bearer" or not right:
            raise RequestRefused(Reply.NO_TOKEN, "the token is missing or wrong.", hint="Send 'Authorization: Bearer'.")

    def _keyed(self, token: bytes) -> bytes:
        return hmac.digest(self._key, token, hashlib.sha256)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
