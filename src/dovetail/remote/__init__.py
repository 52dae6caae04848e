"""Boards: bundles that a server of the Open Inference Protocol runs and times; needs the extra `serve`."""

from dovetail.remote.access import BoardAccess, parse_url
from dovetail.remote.boards import add_board, board_access, known_boards, remove_board
from dovetail.remote.runtime import RemoteModel, RemoteRuntime
from dovetail.remote.served import NamedModel

__all__ = [
    "BoardAccess",
    "NamedModel",
    "RemoteModel",
    "RemoteRuntime",
    "add_board",
    "board_access",
    "known_boards",
    "parse_url",
    "remove_board",
]
