"""HTTP read by httptools, with the bounds that h11 has by itself."""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_IN_LINE = 128
"""Requests that wait behind each other in one connection."""
_HEAD_BYTES = 32 << 10


class HttpTools(HttpToolsProtocol):
    """HTTP/1.1 by uvicorn and httptools; bounds heads and trailers, and requests that are sent before an answer.

    What goes beyond is answered with 400, and the connection closed. No other protocol is changed to: who offers
    HTTP/2 with their first request is answered in this one.
    """

    _unread = 0
    """Bytes since something was whole: a head, a piece of a body, a message."""
    _in_head = True
    _offered = False

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._unset_keepalive_if_required()
        self._unread += len(data)
        try:
            self._feed(data)
            if self._unread > (self.config.h11_max_incomplete_event_size or _HEAD_BYTES):
                raise httptools.HttpParserError("too long a head")
        except httptools.HttpParserError:
            if not self.transport.is_closing():
                self.send_400_response("Invalid HTTP request received.")

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as asked:
                data = self._head_without_offer() + data[asked.args[0] :]

    def _head_without_offer(self) -> bytes:
        """Return the head that was read, as one whose body is read too: the parser leaves it to the other protocol."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            raise httptools.HttpParserError("no proxy")
        kept = [b"%s: %s" % pair for pair in self.headers if pair[0] != b"upgrade"]
        first = b"%s %s HTTP/%s" % (method, self.url, self.parser.get_http_version().encode())
        return b"\r\n".join([first, *kept, b"", b""])

    def on_message_begin(self) -> None:
        """Begin a head."""
        if len(self.pipeline) >= _MOST_IN_LINE:
            raise ValueError("too many requests in line")
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what stands behind a body is none."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End a head."""
        self._in_head, self._unread = False, 0
        self._offered = self.parser.should_upgrade()
        if not self._offered:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._unread = 0
        if not self._offered:
            super().on_message_complete()
