"""Paddle Lite and FastDeploy: logs, subgraph.txt and the mixed-precision file."""

from dovetail.formats.paddle.fix import fix
from dovetail.formats.paddle.lint import LintContext, lint
from dovetail.formats.paddle.log import Log, LoggedOperation, Paragraph, Where, parse_log
from dovetail.formats.paddle.policy import PaddleDevice, Policy
from dovetail.formats.paddle.rules import Dialect, SubgraphRule, load_rules, match, match_all
from dovetail.formats.paddle.subgraphs import SubgraphEstimate, estimate_subgraphs
from dovetail.formats.paddle.writer import write_rules

__all__ = [
    "Dialect",
    "LintContext",
    "Log",
    "LoggedOperation",
    "PaddleDevice",
    "Paragraph",
    "Policy",
    "SubgraphEstimate",
    "SubgraphRule",
    "Where",
    "estimate_subgraphs",
    "fix",
    "lint",
    "load_rules",
    "match",
    "match_all",
    "parse_log",
    "write_rules",
]
