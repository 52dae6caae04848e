"""Run bundles on devices (standard library and numpy only)."""

from dovetail.runtime.session import PartitionTiming, Run, Session, open_session

__all__ = ["PartitionTiming", "Run", "Session", "open_session"]
