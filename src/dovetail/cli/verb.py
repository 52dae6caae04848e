"""Verbs: a frozen dataclass whose fields are the options of a command; parse, one library call, an answer."""

from __future__ import annotations

import inspect
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer

from dovetail.cli.render import Screen
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dovetail.report.page import Page


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    NO = 1
    """The answer is no: a comparison fails, a search is not accepted."""
    BAD_INPUT = 2
    DEFECT = 70
    """An error that Dovetail should have foreseen."""
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command gives: plain data for machines, a page for people."""

    document: Mapping[str, object]
    page: Page
    code: ExitCode = ExitCode.DONE


@dataclass(frozen=True, kw_only=True)
class Verb(ABC):
    """A command; its fields are the options that every command has."""

    json_output: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False
    progress: Annotated[
        bool, typer.Option("--progress", help="Show progress on stderr even when it is not a terminal.")
    ] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False

    @abstractmethod
    def run(self, screen: Screen) -> Answer:
        """Do the work; raise DovetailError for bad input."""

    def instead(self) -> str | None:
        """Return text to print instead of doing the work, where that was asked for."""
        return None

    def resume_note(self) -> str:
        """Return what to say after an interruption."""
        return "nothing was written."


def shared_options() -> frozenset[str]:
    """Return the names of the options that every command has."""
    return frozenset(field.name for field in fields(Verb))


def add_verb(app: typer.Typer, name: str, kind: type[Verb], *, hidden: bool = False) -> None:
    """Make a command of a verb; its docstring is the help."""
    hints = get_type_hints(kind, include_extras=True)
    common = shared_options()
    own = [field for field in fields(kind) if field.name not in common]
    shared = [field for field in fields(kind) if field.name in common]

    def command(**values: object) -> None:
        make: Callable[..., Verb] = kind
        raise typer.Exit(_perform(make(**values)))

    parameters = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default_of(field), annotation=hints[field.name]
        )
        for field in (*own, *shared)
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {field.name: hints[field.name] for field in (*own, *shared)}
    app.command(name, help=inspect.cleandoc(kind.__doc__ or ""), hidden=hidden)(command)


def default_of(field: Field[object]) -> object:
    """Return the value of an option that is not given; `inspect.Parameter.empty` when it has to be."""
    if field.default is not MISSING:
        return field.default
    return inspect.Parameter.empty if field.default_factory is MISSING else field.default_factory()


def _perform(verb: Verb) -> ExitCode:
    """Run a verb; every DovetailError becomes one line on stderr."""
    screen = Screen(machine=verb.json_output, force_progress=verb.progress)
    try:
        text = verb.instead()
        if text is not None:
            screen.write(text)
            return ExitCode.DONE
        answer = verb.run(screen)
        screen.show(answer.document, answer.page)
    except DovetailError as error:
        return fail(screen, _with_option(error, type(verb)), ExitCode.BAD_INPUT)
    except KeyboardInterrupt:
        return fail(screen, f"interrupted: {verb.resume_note()}", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone; Python would complain once more when it flushes.
        sys.stdout = None
        return ExitCode.DONE
    except Exception as error:  # the last line of defence: a person gets one line, --debug gives the rest
        if verb.debug:
            traceback.print_exc()
        hint = "" if verb.debug else " Run it again with --debug for the traceback, and please report it."
        return fail(screen, f"unexpected {type(error).__name__}: {error}.{hint}", ExitCode.DEFECT)
    return answer.code


def _with_option(error: DovetailError, kind: type[Verb]) -> str:
    """Return what an error says, and how the command spells the value that would mend it."""
    hint = get_type_hints(kind, include_extras=True).get(error.option or "")
    # Typer takes the first spelling for a default until it reads the annotation.
    spellings = [
        name for item in getattr(hint, "__metadata__", ()) for name in (item.default, *(item.param_decls or ()))
    ]
    option = next((name for name in spellings if str(name).startswith("--")), None)
    return str(error) if option is None else f"{error} Option: {option}."


def fail(screen: Screen, message: str, code: ExitCode) -> ExitCode:
    """Write on one line of stderr what went wrong."""
    screen.complain(message)
    return code
