"""What is written on the command line, as values."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.errors import DovetailError, suggestion


def one_of(option: str, given: str, known: Sequence[str]) -> str:
    """Return a known name; raise DovetailError with the nearest one."""
    if given in known:
        return given
    raise DovetailError(f"{option} '{given}' is unknown.", hint=suggestion(given, known))


def some_seconds(option: str, given: float) -> float:
    """Return a time that something may take; raise DovetailError for what is no time."""
    if not 0 < given < float("inf"):
        raise DovetailError(f"{option} {given:g} is no time.", hint="Seconds, more than 0.")
    return given


def named_values(option: str, texts: Sequence[str], example: str) -> dict[str, str]:
    """Return NAME=VALUE pairs by name; raise DovetailError for anything else."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name and value):
            raise DovetailError(f"{option} '{text}': NAME=VALUE is expected.", hint=f"For example {example}.")
        pairs[name] = value
    return pairs


def split_commas(values: Sequence[str]) -> tuple[str, ...]:
    """Return names given repeatedly or with commas, each once."""
    names = [name.strip() for value in values for name in value.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))
