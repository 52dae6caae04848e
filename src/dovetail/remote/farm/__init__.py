"""A farm: boards as workers of a Dask cluster; needs the extras `cluster` and `serve`."""

from dovetail.remote.farm.farm import Farm, FarmOptions, FarmRun, FarmTiming, LostBoard
from dovetail.remote.farm.joining import serve_board
from dovetail.remote.farm.link import BoardLink
from dovetail.remote.farm.offers import demands_of, offers_of
from dovetail.remote.farm.scheduler import is_farm
from dovetail.remote.farm.status import BoardState, FarmBoard, FarmStatus, read_status
from dovetail.remote.farm.trial import BoardProfile, PieceRun

__all__ = [
    "BoardLink",
    "BoardProfile",
    "BoardState",
    "Farm",
    "FarmBoard",
    "FarmOptions",
    "FarmRun",
    "FarmStatus",
    "FarmTiming",
    "LostBoard",
    "PieceRun",
    "demands_of",
    "is_farm",
    "offers_of",
    "read_status",
    "serve_board",
]
