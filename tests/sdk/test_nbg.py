"""Headers of binary networks: made here by the layout's description, damaged in every way."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import DeviceError
from dovetail.sdk.nbg import check_part, read_facts, read_file


def made(pid: int = 0xEE, inputs: int = 2, outputs: int = 1) -> bytes:
    """Return a file with a name, inputs and outputs, and nothing else."""
    sections = [(0x23, b"net".ljust(220, b"\0"), 220), (1, bytes(112 * inputs), 112), (2, bytes(112 * outputs), 112)]
    at = 0x3C + 44 * len(sections)
    table = body = b""
    for kind, data, item in sections:
        table += struct.pack("<IQQ", kind, at + len(body), len(data)) + bytes(12) + struct.pack("<I", item) + bytes(8)
        body += data
    directory = struct.pack("<III", 0x3C, 44, len(sections))
    size = 0x3C + len(table) + len(body)
    tail = struct.pack("<QII", size, 0x30, 12) + bytes(16) + directory + table + body
    head = b"VPMN" + struct.pack("<II", 0x20005, pid)
    return head + struct.pack("<I", zlib.crc32(head + bytes(4) + tail)) + tail


def test_a_whole_file_is_read() -> None:
    facts = read_facts(made())
    assert (facts.pid, facts.version, facts.name, facts.inputs, facts.outputs) == (0xEE, 0x20005, "net", 2, 1)


@given(st.integers(0, len(made()) - 1))
def test_every_cut_is_refused(length: int) -> None:
    with pytest.raises(DeviceError, match=r"cut short|not a binary network"):
        read_facts(made()[:length])


@given(st.integers(0, len(made()) - 1), st.integers(1, 255))
def test_every_changed_byte_is_refused_or_told(at: int, change: int) -> None:
    data = bytearray(made())
    data[at] ^= change
    if 4 <= at < 8:
        assert read_facts(bytes(data)).inputs is None  # another format version: nothing is claimed about its sections
        return
    with pytest.raises(DeviceError):
        read_facts(bytes(data))


@given(st.binary(max_size=400))
def test_any_bytes_give_facts_or_a_device_error(data: bytes) -> None:
    for candidate in (data, b"VPMN" + data):
        try:
            read_facts(candidate)
        except DeviceError as error:
            _check_one_line(error)


def _check_one_line(error: Exception) -> None:
    assert "\n" not in str(error)


def test_another_part_is_refused() -> None:
    with pytest.raises(DeviceError, match="PID 0xee, not for 0x88"):
        check_part(read_facts(made()), 0x88, "vsi:a311d")


def test_a_missing_file_is_a_device_error(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="cannot be read"):
        read_file(tmp_path / "none.nb")


def test_a_partition_of_a_bundle_is_told_from_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "partition-1.blob").write_bytes(bytes(32) + b"dovetail vsi 1 2\n{}" + made())
    with pytest.raises(DeviceError, match=r"a partition of a bundle.*ovxlib-project"):
        read_file(tmp_path / "partition-1.blob")
