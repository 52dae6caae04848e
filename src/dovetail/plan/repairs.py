"""What was repaired in the graph that a plan is for: plain data, enough to repeat it on the graph as it was shipped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dovetail.errors import PlanError

_MOST_CHANNELS = 1 << 16
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """One repair: its kind, and by tensor what it does to the channels (numbers whose meaning the kind knows)."""

    kind: str
    channels: Mapping[str, tuple[int, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", MappingProxyType(dict(self.channels)))

    def document(self) -> dict[str, object]:
        """Return the record as JSON knows it."""
        return {"kind": self.kind, "channels": {name: list(numbers) for name, numbers in self.channels.items()}}


def digest_text(records: tuple[RepairRecord, ...]) -> str:
    """Return a text that is the same for the same repairs."""
    return json.dumps([record.document() for record in records], sort_keys=True)


def repairs_from(value: object) -> tuple[RepairRecord, ...]:
    """Return the records in a JSON value; raise PlanError when it holds none."""
    if not isinstance(value, list):
        raise PlanError("'repairs' is a list.")
    return tuple(_record(item) for item in value)


def _record(item: object) -> RepairRecord:
    if not isinstance(item, Mapping) or item.keys() != {"kind", "channels"}:
        raise PlanError("a repair has a 'kind' and 'channels'.")
    kind, channels = item["kind"], item["channels"]
    if not isinstance(kind, str) or not isinstance(channels, Mapping):
        raise PlanError("the 'kind' of a repair is a text, its 'channels' are lists by tensor.")
    return RepairRecord(kind, {str(name): _numbers(name, numbers) for name, numbers in channels.items()})


def _numbers(name: object, numbers: object) -> tuple[int, ...]:
    if not isinstance(numbers, list) or len(numbers) > _MOST_CHANNELS:
        raise PlanError(f"repair of '{name}': a list of at most {_MOST_CHANNELS} numbers is expected.")
    if any(type(number) is not int or abs(number) > _LARGEST for number in numbers):
        raise PlanError(f"repair of '{name}': whole numbers are expected.")
    return tuple(numbers)
