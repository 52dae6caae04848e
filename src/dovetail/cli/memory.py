"""How this process gives memory back, and what it says where there is not enough."""

from __future__ import annotations

import ctypes
import os

from dovetail.errors import lacks_memory

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`, from malloc.h."""

_LARGE_BYTES = 4 << 20
SHORT_OF_MEMORY = "there is not enough memory"
_LEAST_MB, _LEAST_MB_CORE = 640, 64
"""Address space in which the libraries load and a small model is worked on; some need more with every core.

With less OpenBLAS asks for its buffers again and again for ever.
"""


def too_low_a_ceiling() -> str:
    """Return what to say where the address space is bounded (`ulimit -v`) too low for anything; else an empty text."""
    ceiling, least = _ceiling(), (_LEAST_MB + _LEAST_MB_CORE * (os.cpu_count() or 1)) << 20
    if ceiling is None or ceiling >= least:
        return ""
    return (
        f"{SHORT_OF_MEMORY}: the address space is bounded to {ceiling >> 20} MB (ulimit -v), "
        f"and {least >> 20} MB are needed: nothing was written."
    )


def is_memory_short(error: BaseException) -> bool:
    """Tell whether an error that ends a command comes of too little memory; under a ceiling some libraries are mute."""
    return lacks_memory(error) or (isinstance(error, SystemError) and _ceiling() is not None)


def _ceiling() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if most == resource.RLIM_INFINITY else most


def give_memory_back() -> None:
    """Let the C library return large blocks to the system as soon as they are free.

    glibc keeps blocks of up to 32 MiB for later once one of that size was freed, and between activations of different
    sizes most of them are never used again. Nothing is changed where the C library is another one, or where the
    environment says how it is to be (`MALLOC_MMAP_THRESHOLD_`, `GLIBC_TUNABLES`).
    """
    if {"MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"} & os.environ.keys():
        return
    try:
        library = ctypes.CDLL(None)
        if hasattr(library, "gnu_get_libc_version"):
            library.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
            library.mallopt(_TRIM_THRESHOLD, 4 * _LARGE_BYTES)
    except (OSError, TypeError, AttributeError):
        return
