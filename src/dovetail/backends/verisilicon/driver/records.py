"""Read the performance records that the vendor's compiler prints with NN_EXT_SHOW_PERF=1.

A record stands between `Show Perf` and `Show Perf End`: lines `key: value` or `key=value`. Operators that are cut
into tiles have a record a tile. A tensor processor's operator that is not cut is printed twice, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dovetail.backend.target import Engine

_BEGIN, _END = "**********Show Perf********", "**********Show Perf End********"
_FIELD = re.compile(r"^(\w+)\s*[:=]\s*(\S+)", re.MULTILINE)
_PAIR = re.compile(r"(\w+):(\S+)")
_MAX_RECORDS = 1 << 17
_ARRAY = re.compile("convolution|depth_wise|fully")
_MULTIPLYING = frozenset({"conv2d", "grouped_conv2d", "deconv2d", "fully_connected", "matmul"})
_NEAR = 6
"""How many operators back the owner of an unnamed multiplication is looked for."""


@dataclass(frozen=True, slots=True)
class Record:
    """One performance record; `uid` names the operator of the program, or is -1 or large where the vendor added it."""

    layer: int
    uid: int
    operation_id: int
    operation: str
    engine: Engine
    cycles: int
    read_bytes: int
    write_bytes: int
    buffers: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PerfLog:
    """The part's facts, and the records in the order of execution."""

    facts: Mapping[str, str]
    records: tuple[Record, ...]

    @property
    def missing(self) -> int:
        """Return how many operations have a number but no record: shader kernels of the vendor's graph library."""
        seen = {record.operation_id for record in self.records}
        return max(seen, default=-1) + 1 - len(seen)


def read_perf(log: str) -> PerfLog:
    """Return the records in a log; raise ValueError when it has none that can be read."""
    head, mark, rest = log.partition(_BEGIN)
    if not mark:
        return PerfLog(_facts(head), ())
    texts = [piece.partition(_END)[0] for piece in rest.split(_BEGIN, _MAX_RECORDS)]
    return PerfLog(_facts(head), tuple(_record(text) for text in _without_repetition(texts)))


def _facts(head: str) -> dict[str, str]:
    start = head.rfind("ArchModelVersion")
    return dict(_FIELD.findall(head[start:])) if start >= 0 else {}


def _without_repetition(texts: Sequence[str]) -> Iterator[str]:
    """Leave out the second print of a pair; equal tiles of the array are tiles, and come in larger numbers."""
    at = 0
    while at < len(texts):
        stop = at + 1
        while stop < len(texts) and texts[stop] == texts[at]:
            stop += 1
        twice = stop - at == 2 and "OPERATION_TARGET_TP" in texts[at]
        yield from texts[at : at + 1] if twice else texts[at:stop]
        at = stop


def _record(text: str) -> Record:
    fields = dict(_FIELD.findall(text))
    names = {key: value for line in text.splitlines()[:8] for key, value in _PAIR.findall(line)}
    try:
        return Record(
            layer=int(names["layer_id"]),
            uid=int(fields["uid"]),
            operation_id=int(fields["abs_op_id"]),
            operation=names["operation_name"].removeprefix("VXNNE_OPERATOR_").lower(),
            engine=Engine(names["operation_target"].removeprefix("VXNNE_OPERATION_TARGET_")),
            cycles=int(fields["CycleCount"]),
            read_bytes=int(fields["ReadBW"]),
            write_bytes=int(fields["WriteBW"]),
            buffers=(fields["SrcBuf"], fields["DstBuf"], fields["KernelBuf"]),
        )
    except KeyError as error:
        raise ValueError(f"a performance record has no {error}") from error


def owners(records: Sequence[Record], kinds: Sequence[str]) -> tuple[int, ...]:
    """Return the operator of the program that each record belongs to; `kinds` are the operators of the program.

    Operations that the vendor added belong to the operator of their layer, else to the next one that runs: it is
    for its sake that data are moved or converted; at the end to the one before. A multiplication without a name
    belongs to the last operator before the next one that multiplies; at the end to the first after the one before.
    """
    known = [record.uid if 0 <= record.uid < len(kinds) else -1 for record in records]
    layers: dict[int, int] = {}
    for record, uid in zip(records, known, strict=True):
        if uid >= 0:
            layers.setdefault(record.layer, uid)
    last, named = next((uid for uid in reversed(known) if uid >= 0), -1), set(known)
    following, ends = last, True
    found: list[int] = []
    for record, uid in zip(reversed(records), reversed(known), strict=True):
        mine = uid if uid >= 0 else layers.get(record.layer, -1)
        if mine < 0 and _ARRAY.search(record.operation):
            after = _multiplying_after(kinds, last) if ends else -1
            mine = after if after >= 0 else _multiplying(kinds, following, named)
        elif mine < 0:
            mine = following
        ends = ends and uid < 0
        found.append(mine)
        following = mine
    return tuple(reversed(found))


def _multiplying(kinds: Sequence[str], before: int, named: set[int]) -> int:
    for index in range(before, max(-1, before - _NEAR), -1):
        if kinds[index] in _MULTIPLYING and index not in named:
            return index
    return before


def _multiplying_after(kinds: Sequence[str], last: int) -> int:
    return next((index for index in range(last + 1, len(kinds)) if kinds[index] in _MULTIPLYING), -1)
