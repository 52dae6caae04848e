"""What goes in a later version: it works until then, and says what takes its place."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dovetail._version import __version__

_P = ParamSpec("_P")
_R = TypeVar("_R")


class DovetailDeprecation(DeprecationWarning):
    """A public name, parameter or option that goes in a later version."""


def warn_deprecated(what: str, instead: str, *, gone: str, above: int = 1) -> None:
    """Say that something goes in version `gone`, and what takes its place, where the caller's caller used it.

    `above` counts the calls between that place and the caller of this function. Raises RuntimeError once the version is
    reached: then it is to be removed.
    """
    if numbers_of(__version__) >= numbers_of(gone):
        raise RuntimeError(f"{what} was to go in {gone}, and this is {__version__}.")
    text = f"{what} is deprecated and goes in {gone}: use {instead}."
    warnings.warn(text, DovetailDeprecation, stacklevel=2 + above)


def deprecated(instead: str, *, gone: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator for a function that goes in version `gone`; it works until then, and warns at each call."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        what = f"{function.__module__}.{function.__qualname__}"

        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            warn_deprecated(what, instead, gone=gone)
            return function(*args, **kwargs)

        return call

    return decorate


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `0.2.0`; raise ValueError for anything else."""
    return tuple(int(part) for part in version.split("."))
