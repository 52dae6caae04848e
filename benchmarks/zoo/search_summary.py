"""What a run of all searches comes to, in sentences that are computed from its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.peers import Found

OURS = "dovetail, up to "
"""How the names of our own searches begin."""

NNCF = "NNCF accuracy control"
CHECK = "floor: check"
_ORT = "ORT exclude, "


def met(row: Found) -> str:
    """Return whether a plan meets the goal on the target: on the hold-out split, in exact simulation."""
    return "-" if row.lost is None else "yes" if row.holds else "no"


def summary(found: Mapping[str, Sequence[Found]], cpu: str) -> list[str]:
    """Return a line for every task on costs, then one for every task on time, then how many tasks went well."""
    costs = {name: cost_line(name, rows, cpu) for name, rows in found.items()}
    times = [time_line(name, rows) for name, rows in found.items()]
    dearer = [name for name, rows in found.items() if cheaper_peers(rows, cpu)]
    decided = [name for name, rows in found.items() if _ours(rows, cpu) is not None]
    total = (
        f"In {len(decided) - len(dearer)} of {len(decided)} tasks no peer's plan that meets the goal on the target is "
        "cheaper than ours" + (f"; not so in: {', '.join(dearer)}." if dearer else ".")
    )
    return [*costs.values(), *times, total]


def cheaper_peers(rows: Sequence[Found], cpu: str) -> list[Found]:
    """Return the peers whose plans meet the goal on the target and cost less than ours from the same choices."""
    ours = _ours(rows, cpu)
    if ours is None or ours.latency_ms is None:
        return []
    most = ours.latency_ms * (1 - 1e-6) if ours.holds else float("inf")
    return [row for row in peers(rows) if row.holds and row.latency_ms is not None and row.latency_ms < most]


def peers(rows: Sequence[Found]) -> list[Found]:
    """Return what other tools found."""
    return [row for row in rows if row.tool.startswith((NNCF, _ORT))]


def cost_line(name: str, rows: Sequence[Found], cpu: str) -> str:
    """Say whether a peer's plan that meets the goal on the target is cheaper than ours."""
    ours = _ours(rows, cpu)
    if ours is None or ours.latency_ms is None:
        return f"{name}: our search has no plan with a price, so that none can be compared."
    cheaper = cheaper_peers(rows, cpu)
    own = f"ours takes {ours.latency_ms:.3f} ms" + ("" if ours.holds else " and does not meet the goal")
    if cheaper:
        first = ", ".join(f"{row.tool}'s {row.latency_ms:.3f} ms" for row in cheaper)
        return f"{name}: cheaper than our plan and within the goal on the target: {first} ({own})."
    failing = [row for row in peers(rows) if row.lost is not None and not row.holds and row.latency_ms is not None]
    lower = [row for row in failing if row.latency_ms is not None and row.latency_ms < ours.latency_ms]
    missed = ", ".join(f"{row.tool} with {row.latency_ms:.3f} ms loses {row.lost:.3f}" for row in lower)
    rest = f"; cheaper, but beyond the goal on the target: {missed}" if missed else ""
    return f"{name}: no peer's plan that meets the goal on the target is cheaper than ours ({own}){rest}."


def time_line(name: str, rows: Sequence[Found]) -> str:
    """Say how our wall time compares with NNCF's."""
    peer = next((row for row in rows if row.tool == NNCF), None)
    ours = [row for row in rows if row.tool.startswith(OURS) and "nodes" not in row.tool]
    if peer is None or not ours:
        return f"{name}: NNCF has no time here to compare with."
    parts = [
        f"{row.wall_s / peer.wall_s:.2f} of NNCF's wall time {row.tool.removeprefix('dovetail, ')}" for row in ours
    ]
    known = next((row for row in rows if row.tool == CHECK), None)
    if known is not None:
        parts.append(f"{known.wall_s / peer.wall_s:.2f} for checking our plan when it is known")
    unfinished = "" if peer.lost is not None else ", which found no plan in it"
    return f"{name}: {', '.join(parts)} (NNCF: {peer.wall_s:.1f} s{unfinished})."


def _ours(rows: Sequence[Found], cpu: str) -> Found | None:
    return next((row for row in rows if row.tool == f"{OURS}{cpu}"), None)
