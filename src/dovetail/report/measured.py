"""What a profile says: LoadGen's scenarios, and the memory of the process."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.report.figures import bytes_text, time_text
from dovetail.report.page import Table, left, right
from dovetail.runtime.profiling import RunProfile

_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def scenarios(profile: RunProfile) -> dict[str, dict[str, object]]:
    """Return the figures of a profile by the names that MLPerf's LoadGen has for how requests come.

    `_bound_ns` is what so many of all requests keep within with 99 % confidence; None where runs are too few.
    """
    single: dict[str, object] = {"queries": len(profile.runs)}
    for name, share in _SHARES.items():
        single[f"{name}_ns"] = profile.percentile_ns(share)
        single[f"{name}_bound_ns"] = profile.bound_ns(share)
    return {"SingleStream": single, "Offline": {"queries": len(profile.runs), "samples_per_s": profile.per_second}}


def scenario_table(told: Mapping[str, Mapping[str, object]]) -> Table:
    """Return the figures as a table."""
    single, offline = told["SingleStream"], told["Offline"]
    rows = [
        (f"SingleStream {name}", _time(single[f"{name}_ns"]), _bound(single[f"{name}_bound_ns"])) for name in _SHARES
    ]
    rows.append(("Offline", f"{float(str(offline['samples_per_s'])):.1f} samples/s", ""))
    columns = (left("scenario (as in LoadGen)"), right("measured"), right("at most, 99 % sure"))
    return Table(f"Scenarios, {single['queries']} requests each", columns, tuple(rows))


def memory_document(profile: RunProfile) -> dict[str, object] | None:
    """Return the memory of the process that ran the model; None where it is not told."""
    found = profile.memory
    if found is None:
        return None
    return {"before_bytes": found.before_bytes, "peak_bytes": found.peak_bytes, "added_bytes": found.added_bytes}


def memory_text(told: Mapping[str, object]) -> str:
    """Write the memory of a process."""
    peak, added = told["peak_bytes"], told["added_bytes"]
    whole = bytes_text(int(str(peak)))
    return (
        f"{whole} at most" if added is None else f"{whole} at most, {bytes_text(int(str(added)))} since it was loaded"
    )


def _time(value: object) -> str:
    return time_text(float(str(value)))


def _bound(value: object) -> str:
    return "too few requests" if value is None else _time(value)
