"""What boards offer and bundles demand, as resources of Dask: the scheduler gives a task to workers that have all.

A board offers one `npu`, so that one task at a time is on it; `part:TARGET` for everything that it runs;
`backend:NAME@VERSION` for its backends, whose versions hold those of the vendor's SDK; and `dovetail@VERSION` of the
worker, which unpacks what it is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail._version import __version__
from dovetail.backend.registry import backends_for, known_targets
from dovetail.bundle.bundle import Bundle
from dovetail.runtime.place import BackendPresence

NPU = "npu"


def offers_of(backends: Iterable[BackendPresence], parts: Iterable[str]) -> dict[str, float]:
    """Return the resources of a board with these backends, which runs these targets."""
    usable = [item for item in backends if item.available]
    names = (NPU, _dovetail(), *map(_part, parts), *(_backend(item.name, item.version) for item in usable))
    return dict.fromkeys(names, 1.0)


def demands_of(bundle: Bundle) -> dict[str, float]:
    """Return the resources that a board needs for a bundle."""
    parts = [_part(item.target) for item in bundle.partitions]
    backends = [_backend(item.backend, item.backend_version) for item in bundle.partitions]
    return dict.fromkeys((NPU, _dovetail(), *parts, *backends), 1.0)


def lacking(demands: Mapping[str, float], offers: Mapping[str, float]) -> tuple[str, ...]:
    """Return the names of what is demanded and not offered."""
    return tuple(name for name, amount in demands.items() if offers.get(name, 0.0) < amount)


def parts_of(backends: Iterable[BackendPresence]) -> tuple[str, ...]:
    """Return the targets that backends of these names serve, as this machine knows them."""
    usable = {item.name for item in backends if item.available}
    names = [target.name for target in known_targets()]
    return tuple(name for name in names if usable & {owner.name for owner in backends_for(name)})


def _part(target: str) -> str:
    return f"part:{target}"


def _backend(name: str, version: str) -> str:
    return f"backend:{name}@{version}"


def _dovetail() -> str:
    return f"dovetail@{__version__}"
