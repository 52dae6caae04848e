"""Changes to the repository that peers ask for."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping

from dovetail.errors import BundleError
from dovetail.oip.failures import Reply, RequestRefused
from dovetail.serve.repository import Repository

PASSING = "passing"
"""The parameter of an upload that is to be kept in memory only."""


class RepositoryChanges:
    """Load, unload and upload, one at a time; refused where the server is to stay as it is."""

    def __init__(self, repository: Repository, *, allowed: bool) -> None:
        self._repository = repository
        self._allowed = allowed
        self._turn = asyncio.Lock()

    async def load(self, name: str, parameters: Mapping[str, object]) -> None:
        """Load a model of the folder or, with `file:` parameters, the bundle that comes in them.

        Contents are bytes, or text in base64. Raises what the repository raises, and RequestRefused for parameters
        that are unknown.
        """
        self._check()
        files = {key: _content(key, value) for key, value in parameters.items() if key.startswith("file:")}
        others = {key: value for key, value in parameters.items() if key not in files}
        passing = others.pop(PASSING, False) is True
        # Clients have to give a configuration with files. A bundle has its own, and no other is obeyed.
        if str(others.pop("config", "{}")).strip() not in ("{}", ""):
            raise RequestRefused(Reply.BAD_REQUEST, "a bundle has its configuration.", hint="Give 'config' as {}.")
        if others:
            raise RequestRefused(Reply.BAD_REQUEST, f"parameter '{next(iter(others))[:80]}' is unknown.")
        async with self._turn:
            if files:
                await asyncio.to_thread(lambda: self._repository.upload(name, files, passing=passing))
            else:
                await asyncio.to_thread(self._repository.load, name)

    async def unload(self, name: str) -> None:
        """Stop serving a model."""
        self._check()
        async with self._turn:
            await asyncio.to_thread(self._repository.unload, name)

    def _check(self) -> None:
        if not self._allowed:
            raise RequestRefused(Reply.FORBIDDEN, "this server's models stay as they are.")


def _content(key: str, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BundleError(f"'{key[:80]}': not base64.") from error
