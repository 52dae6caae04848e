"""Run bundles on devices (standard library and numpy only)."""

from dovetail.runtime.checks import Guard
from dovetail.runtime.place import BackendPresence, LoadedModel, LocalRuntime, Runtime
from dovetail.runtime.profiling import ProfileOptions, RunProfile
from dovetail.runtime.record import PartitionTiming, Run
from dovetail.runtime.session import Session, SessionOptions, open_session

__all__ = [
    "BackendPresence",
    "Guard",
    "LoadedModel",
    "LocalRuntime",
    "PartitionTiming",
    "ProfileOptions",
    "Run",
    "RunProfile",
    "Runtime",
    "Session",
    "SessionOptions",
    "open_session",
]
