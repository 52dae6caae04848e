"""Bound the converter's process: processor time, memory, and a single folder to write into (Linux Landlock)."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES, _DEATH_SIGNAL = 38, 1
_PATH_BENEATH = 1
_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
_MAKE_ANY = 0b1111111 << 6
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_ALL_TCP = 0b11
_MOST_FILE_BYTES = 8 << 30


def limit(cpu_s: int, memory_bytes: int) -> None:
    """Bound this process and end it with its parent."""
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, int(signal.SIGKILL))
    for kind, ceiling in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, _MOST_FILE_BYTES),
    ):
        _, most = resource.getrlimit(kind)
        bound = ceiling if most == resource.RLIM_INFINITY else min(ceiling, most)
        resource.setrlimit(kind, (bound, bound))


def confine(folder: str) -> bool:
    """Forbid to write outside `folder` and /dev, and to use TCP where the kernel can; return whether it could."""
    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        return False
    rights = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_ANY
    rights |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rules = struct.pack("QQ", rights, _ALL_TCP) if version >= 4 else struct.pack("Q", rights)
    ruleset = library.syscall(_CREATE_RULESET, rules, len(rules), 0)
    if ruleset < 0:
        return False
    for place in (folder, "/dev"):
        handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
        library.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, handle), 0)
        os.close(handle)
    library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    done = library.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return bool(done)
