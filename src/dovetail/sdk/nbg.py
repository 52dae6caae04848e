"""Read the header of a binary network (NBG): what it is for and whether it is whole, without running it.

Layout, little-endian: `VPMN`, u32 format version, u32 product id of the part, u32 CRC-32 of the whole file with this
field as zero, u64 size of the file, u32 offset and u32 size of a directory: u32 offset of the section table, u32 size
and u32 count of its entries. An entry holds u32 kind, u64 offset, u64 bytes and, at 32, u32 bytes of one item.
Kinds 1 and 2 are inputs and outputs. The fields were found by comparing files; format version 0x00020005.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import DeviceError

MAGIC = b"VPMN"
_HEADER = struct.Struct("<4sIIIQII")
_DIRECTORY = struct.Struct("<III")
_ENTRY = struct.Struct("<IQQ12xI8x")
_CHECKSUM_AT = 12
_NAME_SECTION, _NAME_BYTES = 0x23, 64
_INPUTS, _OUTPUTS = 1, 2
_CHECKED_VERSION = 0x00020005
_MAX_BYTES = 2 << 30
_MAX_SECTIONS = 256
_BLOB = ".blob"
_HINT = "Compile the model again for this part."
_KINDS = "Give a file that VeriSilicon's compiler made (.nb, network_binary.nb)."


@dataclass(frozen=True, slots=True)
class BinaryFacts:
    """What the header says: format version, product id, the network's name, and how many inputs and outputs it has."""

    version: int
    pid: int
    size_bytes: int
    name: str
    inputs: int | None
    """None in a format version whose sections are not known."""
    outputs: int | None


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    at: int
    size: int
    item: int

    @property
    def items(self) -> int:
        return self.size // self.item if self.item else 0


def read_facts(binary: bytes, where: str = "binary network") -> BinaryFacts:
    """Return the facts in a header; raise DeviceError when it is cut short, damaged or not a binary network."""
    if len(binary) < _HEADER.size:
        raise DeviceError(f"{where}: cut short at {len(binary)} bytes; a header has {_HEADER.size}.", hint=_HINT)
    magic, version, pid, checksum, size, directory, _ = _HEADER.unpack_from(binary)
    if magic != MAGIC:
        raise DeviceError(f"{where}: not a binary network: it begins with {magic!r}, not {MAGIC!r}.", hint=_KINDS)
    if version != _CHECKED_VERSION:
        return BinaryFacts(version, pid, len(binary), "", None, None)
    if size != len(binary):
        state = "cut short" if len(binary) < size else "too long"
        raise DeviceError(f"{where}: {state}: it has {len(binary)} bytes, its header says {size}.", hint=_HINT)
    blank = bytes(4)
    computed = zlib.crc32(binary[_CHECKSUM_AT + 4 :], zlib.crc32(blank, zlib.crc32(binary[:_CHECKSUM_AT])))
    if computed != checksum:
        raise DeviceError(
            f"{where}: damaged: its checksum is {computed:#010x}, its header says {checksum:#010x}.", hint=_HINT
        )
    try:
        sections = {section.kind: section for section in _sections(binary, directory)}
    except (struct.error, ValueError) as error:
        raise DeviceError(f"{where}: damaged: {error}.", hint=_HINT) from error
    counts = [sections[kind].items if kind in sections else 0 for kind in (_INPUTS, _OUTPUTS)]
    return BinaryFacts(version, pid, len(binary), _name(binary, sections), counts[0], counts[1])


def _sections(binary: bytes, directory: int) -> list[_Section]:
    table, entry_bytes, count = _DIRECTORY.unpack_from(binary, directory)
    if count > _MAX_SECTIONS or entry_bytes < _ENTRY.size:
        raise ValueError(f"it claims {count} sections of {entry_bytes} bytes")
    sections: list[_Section] = []
    for index in range(count):
        start = table + index * entry_bytes
        kind, at, size, item = _ENTRY.unpack_from(binary, start)
        if at + size > len(binary):
            raise ValueError(f"section {kind:#x} lies outside the file")
        sections.append(_Section(kind, at, size, item))
    return sections


def _name(binary: bytes, sections: dict[int, _Section]) -> str:
    section = sections.get(_NAME_SECTION)
    if section is None:
        return ""
    raw = binary[section.at : section.at + min(section.size, _NAME_BYTES)]
    return raw.split(b"\0", 1)[0].decode(errors="replace")


def read_file(path: Path) -> BinaryFacts:
    """Return the facts of a file; raise DeviceError when it cannot be read or is no whole binary network."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DeviceError(f"{path}: larger than {_MAX_BYTES} bytes.")
        content = path.read_bytes()
        if path.suffix == _BLOB and not content.startswith(MAGIC):
            raise DeviceError(
                f"{path}: a partition of a bundle, which holds its binary network with facts of its own.",
                hint="Export the plan as an ovxlib-project: it has the network alone, for a board.",
            )
        return read_facts(content, str(path))
    except OSError as error:
        raise DeviceError(f"{path}: cannot be read: {error.strerror}.") from error


def check_part(facts: BinaryFacts, pid: int, where: str) -> None:
    """Raise DeviceError when a binary network was made for another part."""
    if facts.pid != pid:
        raise DeviceError(
            f"{where}: the binary network is for the part with PID {facts.pid:#x}, not for {pid:#x}.", hint=_HINT
        )
