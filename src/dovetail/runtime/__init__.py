"""Run bundles on devices (standard library and numpy only)."""

from dovetail.runtime.checks import Guard
from dovetail.runtime.record import PartitionTiming, Run
from dovetail.runtime.session import Session, SessionOptions, open_session

__all__ = ["Guard", "PartitionTiming", "Run", "Session", "SessionOptions", "open_session"]
