"""The one exception tree.

Every field is plain data, so that an error raised on a board is the same error on the host.
The message form is: what, where, why, what to try.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from enum import Enum


class DovetailError(Exception):
    """Report what failed, why, and what to try.

    `str(error)` is one line: the message, then the hint where there is one. `option` names the value that would mend
    it, for those who spell values in a way of their own (`min_score`: a command says `--min-score`).
    """

    def __init__(self, message: str, *, hint: str | None = None, option: str | None = None) -> None:
        self.message = _one_line(message)
        self.hint = None if hint is None else _one_line(hint)
        self.option = option
        super().__init__(self.message if self.hint is None else f"{self.message} {self.hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.args, dict(self.__dict__))


_FEW_LETTERS = 2
"""A beginning of so few letters says nothing of what was meant."""


def suggestion(given: str, known: Sequence[str]) -> str:
    """Return a hint that names what was probably meant, and everything that is known.

    A name of which the given one is the beginning is meant before those that are spelt alike.
    """
    if not known:
        return "None is known."
    import difflib  # Only a wrong name needs it.

    begun = [name for name in known if len(given) > _FEW_LETTERS and name.startswith(given)]
    heads = {name.partition("-")[0]: name for name in reversed(known)}
    near = begun or difflib.get_close_matches(given, known, n=1)
    near = near or [heads[head] for head in difflib.get_close_matches(given, list(heads), n=1)]
    return (f"Did you mean '{near[0]}'? " if near else "") + f"Known: {', '.join(known)}."


NO_MEMORY = (
    "MemoryError",
    "bad_alloc",
    "bad allocation",
    "Cannot allocate memory",
    "Failed to allocate memory",
    "Unable to allocate",
    "can't start new thread",
    "failed to map segment",
    "out of memory",
    "Out of memory",
)
"""What libraries and vendors' programs say where memory is short."""


def lacks_memory(error: BaseException) -> bool:
    """Tell whether an error comes of a lack of memory: then it says nothing about what was asked for."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        if isinstance(at, MemoryError) or getattr(at, "errno", None) == errno.ENOMEM:
            return True
        if any(word in str(at) for word in NO_MEMORY):
            return True
        seen.append(at)
        at = at.__cause__ or at.__context__
    return False


def _one_line(text: str) -> str:
    # Names and texts from files can hold line breaks, and what other libraries raise often does.
    return " ".join(text.splitlines())


def _restore(kind: type[DovetailError], args: tuple[object, ...], fields: dict[str, object]) -> DovetailError:
    error = kind.__new__(kind)
    Exception.__init__(error, *args)
    error.__dict__.update(fields)
    return error


class LoadError(DovetailError):
    """A model file cannot be read; `source_node` names the place in it when it is known."""

    def __init__(
        self, message: str, *, source_node: str | None = None, hint: str | None = None, option: str | None = None
    ) -> None:
        self.source_node = source_node
        super().__init__(message, hint=hint, option=option)


class GraphError(DovetailError):
    """A Graph breaks an invariant of the intermediate representation."""


class PassError(DovetailError):
    """A pass cannot do its work on this Graph."""

    def __init__(self, message: str, *, pass_name: str, hint: str | None = None) -> None:
        self.pass_name = pass_name
        super().__init__(f"pass {pass_name}: {message}", hint=hint)


class DataError(DovetailError):
    """A data set, a sample or a preprocess file cannot be used."""


class PlanError(DovetailError):
    """A recipe or a plan does not fit the Graph or the targets."""


class UnsupportedPlacement(PlanError):
    """A node cannot run where the plan puts it."""

    def __init__(self, node: str, target: str, precision: str, reason: str, *, hint: str | None = None) -> None:
        self.node = node
        self.target = target
        self.precision = precision
        self.reason = reason
        super().__init__(f"{node}: {target} cannot run it at {precision}: {reason}.", hint=hint)


class InexpressiblePlan(PlanError):
    """A format has no words for what a plan says of `nodes`; `nearest` is the nearest plan it can say, as JSON."""

    def __init__(self, message: str, *, nodes: tuple[str, ...], nearest: str, hint: str | None = None) -> None:
        self.nodes = nodes
        self.nearest = nearest
        super().__init__(message, hint=hint, option="nearest")


class QuantizeError(DovetailError):
    """A tensor cannot be quantised as the plan asks."""


class CompileFailure(Enum):
    """How a vendor's compiler failed; the words stand before what it was given."""

    REFUSED = "refuses"
    CRASHED = "crashes on"
    HUNG = "hangs on"
    KILLED = "was killed at"
    """By something outside, such as a lack of memory: it says nothing about the graph."""


class CompileError(DovetailError):
    """A partition does not compile.

    `failure` says how the vendor's compiler failed, None where the reason is not the vendor's; `nodes` are those that
    it was found to fail on.
    """

    def __init__(
        self,
        message: str,
        *,
        partition: int | None = None,
        failure: CompileFailure | None = None,
        log_path: str | None = None,
        hint: str | None = None,
        option: str | None = None,
    ) -> None:
        self.partition = partition
        self.failure = failure
        self.nodes: tuple[str, ...] = ()
        self.log_path = log_path
        super().__init__(message, hint=hint, option=option)

    def naming(self, nodes: Iterable[str]) -> CompileError:
        """Return this error with the nodes that the compiler was found to fail on."""
        self.nodes = tuple(nodes)
        return self


class BundleError(DovetailError):
    """A bundle is damaged, unsafe or made for something else."""


class DeviceError(DovetailError):
    """A device cannot do what is asked of it."""


class DeviceNotFound(DeviceError):
    """No device, target or backend of that name."""


class DeviceLost(DeviceError):
    """A device or its worker process stopped answering."""


class RemoteError(DovetailError):
    """A board cannot be reached, or its server refuses a request."""


class CostError(DovetailError):
    """A plan cannot be priced, or a table of costs cannot be used."""


class SearchError(DovetailError):
    """A search cannot start or go on."""


class FormatError(DovetailError):
    """A text file in a known format is wrong at a known place."""

    def __init__(
        self, message: str, *, path: str, line: int, code: str, hint: str | None = None, option: str | None = None
    ) -> None:
        self.path = path
        self.line = line
        self.code = code
        self.detail = message
        super().__init__(f"{path}:{line}: {code}: {message}", hint=hint, option=option)
