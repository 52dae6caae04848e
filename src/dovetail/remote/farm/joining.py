"""How a board joins a farm."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.cluster import without_distributed
from dovetail.remote.farm.link import BoardLink


def serve_board(scheduler: str, link: BoardLink, say: Callable[[str], None]) -> int:
    """Keep a board in the farm at a scheduler until SIGINT or SIGTERM; return how often it joined.

    `say` hears when it joins and when it is drained. Raises RemoteError where board or scheduler do not answer at
    first, the name is taken, or `distributed` is not installed.
    """
    try:
        from dovetail.remote.farm.worker import BoardService
    except ImportError as error:
        raise without_distributed() from error
    return BoardService(scheduler, link, say).run()
