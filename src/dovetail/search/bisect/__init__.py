"""Bisection with any oracle: a command, or a person who says good and bad."""

from dovetail.search.bisect.candidate import (
    BisectCandidate,
    CandidateFiles,
    CandidateWriter,
    UnsayableCandidate,
    register_writer,
    writer,
    writer_names,
)
from dovetail.search.bisect.command import CommandOracle, CommandVerdict, MetricRule
from dovetail.search.bisect.formats import format_writer
from dovetail.search.bisect.setup import BisectRequest, make_setup, setup_of_lines
from dovetail.search.bisect.state import Bisection, Response, Setup, read_log, reset_bisection, start_bisection
from dovetail.search.bisect.strategy import BisectResult, Outcome, bisect_lines

__all__ = [
    "BisectCandidate",
    "BisectRequest",
    "BisectResult",
    "Bisection",
    "CandidateFiles",
    "CandidateWriter",
    "CommandOracle",
    "CommandVerdict",
    "MetricRule",
    "Outcome",
    "Response",
    "Setup",
    "UnsayableCandidate",
    "bisect_lines",
    "format_writer",
    "make_setup",
    "read_log",
    "register_writer",
    "reset_bisection",
    "setup_of_lines",
    "start_bisection",
    "writer",
    "writer_names",
]
