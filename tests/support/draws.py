"""Where drawn tests begin: one word a run, new in each unless DOVETAIL_SEED gives it, and told at the run's end."""

from __future__ import annotations

import hashlib
import os
import secrets

VARIABLE = "DOVETAIL_SEED"


def run_seed() -> str:
    """Return the run's word; what this process starts has the same one."""
    return os.environ.setdefault(VARIABLE, secrets.token_hex(4))


def seed_of(name: str) -> int:
    """Return the number that one use draws from, of 31 bits: other names have other ones, in other runs too."""
    return int.from_bytes(hashlib.sha256(f"{run_seed()} {name}".encode()).digest()[:4], "big") >> 1


def seed_here() -> int:
    """Return the number that the test that runs draws from: another for each, and for each of its parameters."""
    return seed_of(os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0])
