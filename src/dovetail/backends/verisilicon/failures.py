"""What the installed SDK's compiler is known to crash or hang on, asked before anything is quantised."""

from __future__ import annotations

from functools import lru_cache

from dovetail._version import __version__
from dovetail.backend.failures import FailureMemory, FailureScope, KnownFailure
from dovetail.backends.verisilicon.lowering.trial import LoweringTrial, is_hashable, stand_in, trial_of
from dovetail.backends.verisilicon.part import Part
from dovetail.ir.graph import Graph
from dovetail.ir.node import Node
from dovetail.ir.precision import Precision
from dovetail.sdk.location import SdkFolder, failures_folder, fingerprint, verisilicon_folder

BACKEND = "vsi"
_REVISION = 2
"""Raise it when compiled blobs or results change."""
_MARK_DIGITS = 8


def compiler_version(folder: SdkFolder) -> str:
    """Return the versions of the package and of what it writes, and a mark of the SDK's contents."""
    return f"{__version__}+{_REVISION}.{fingerprint(folder.sdk, folder.timvx)[:_MARK_DIGITS]}"


def known_refusal(graph: Graph, node: Node, precision: Precision, part: Part) -> str | None:
    """Return what is remembered of a node, whatever its scales and weights; None where nothing is.

    Only failures of the SDK that is installed here count.
    """
    memory = FailureMemory(failures_folder())
    stamp = memory.stamp
    if not stamp:
        return None
    entries = _entries(memory, verisilicon_folder(), part.target, stamp)
    if not any(entry.ops == (node.op,) for entry in entries):
        return None
    trial = trial_of(graph, node, precision, part)
    return _told(trial, entries) if is_hashable(node) else _told.__wrapped__(trial, entries)


@lru_cache(maxsize=1 << 14)
def _told(trial: LoweringTrial, entries: tuple[KnownFailure, ...]) -> str | None:
    alone = stand_in(trial)
    found = (entry for entry in entries if entry.ops == (trial.op,) and entry.pattern.find(alone))
    return next((entry.told for entry in found), None)


@lru_cache(maxsize=64)
def _entries(memory: FailureMemory, folder: SdkFolder, target: str, stamp: int) -> tuple[KnownFailure, ...]:
    """Return what is known of a target; `stamp` is the memory's."""
    if not folder.has_sdk or not any(entry.scope.target == target for entry in memory.entries()):
        return ()
    return memory.within(FailureScope(BACKEND, compiler_version(folder), target))
