"""Verbs: a frozen dataclass whose fields are the options of a command; parse, one library call, an answer."""

from __future__ import annotations

import inspect
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import MISSING, Field, dataclass, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, get_type_hints

import typer

from dovetail.cli.memory import SHORT_OF_MEMORY, is_memory_short
from dovetail.cli.output import answers_only, drop_output
from dovetail.cli.places import kept_place
from dovetail.cli.render import Screen
from dovetail.cli.sections import sectioned
from dovetail.cli.signals import Terminated, asked_to_end
from dovetail.cli.strict import strict_values
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.report.page import Page


LOADING = "Reading the model"
"""The heading of the options that say how a model's file is read."""


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    NO = 1
    """The answer is no: a comparison fails, a search is not accepted."""
    BAD_INPUT = 2
    DEFECT = 70
    """An error that Dovetail should have foreseen."""
    INTERRUPTED = 130
    TERMINATED = 143


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command gives: plain data for machines, a page for people."""

    document: Mapping[str, object]
    page: Page
    code: ExitCode = ExitCode.DONE


@dataclass(frozen=True, kw_only=True)
class Verb(ABC):
    """A command; its fields are the options that every command has."""

    section: ClassVar[str] = "Every command"
    """Under which heading of the help the options stand that a class adds; empty where the command is about them."""
    sections: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Headings with the fields under them, in the order of the help; fields that are named come before all others."""

    json_output: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False
    progress: Annotated[
        bool, typer.Option("--progress", help="Show progress on stderr even when it is not a terminal.")
    ] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False

    @abstractmethod
    def run(self, screen: Screen) -> Answer:
        """Do the work; raise DovetailError for bad input."""

    def completed(self, screen: Screen) -> Verb:
        """Return the command with what it finds by itself where an option is not given, which is said."""
        return self

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
    text = inspect.cleandoc(kind.__doc__ or "")
    app.command(name, cls=sectioned(_sections(kind), strict_values(hints)), help=text, hidden=hidden)(command)


def _sections(kind: type[Verb]) -> dict[str, str]:
    """Return the heading of each field that stands under one, in the order in which headings are shown."""
    told = {name: title for title, names in kind.sections.items() for name in names} | {"help": Verb.section}
    for base in kind.__mro__:
        title = vars(base).get("section", "")
        told |= {name: title for name in vars(base).get("__annotations__", {}) if title and name not in told}
    # What every command has is said last, and how models are read before it.
    last = list(dict.fromkeys([*kind.sections, LOADING, Verb.section]))
    return dict(sorted(told.items(), key=lambda item: last.index(item[1])))


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
            if verb.json_output:
                raise DovetailError("--json prints JSON only, and a program was asked for too.", hint="Leave out one.")
            screen.write(text)
            return ExitCode.DONE
        with answers_only() if verb.json_output else nullcontext():
            answer = verb.completed(screen).run(screen)
    except DovetailError as error:
        if is_memory_short(error):
            return fail(screen, f"{SHORT_OF_MEMORY}: {_note(verb)} {error}", ExitCode.BAD_INPUT)
        return fail(screen, _with_option(error, type(verb)), ExitCode.BAD_INPUT)
    except Terminated:
        return fail(screen, f"terminated: {verb.resume_note()}", ExitCode.TERMINATED)
    except KeyboardInterrupt:
        return fail(screen, f"interrupted: {verb.resume_note()}", ExitCode.INTERRUPTED)
    except SystemExit as end:
        return fail(screen, f"what was run for it asked to exit ({end.code}): a metric, perhaps.", ExitCode.BAD_INPUT)
    except Exception as error:  # the last line of defence: a person gets one line, --debug gives the rest
        if verb.debug:
            traceback.print_exc()
        if (signal := asked_to_end()) is not None:
            code = ExitCode.TERMINATED if signal is Terminated else ExitCode.INTERRUPTED
            return fail(screen, f"{code.name.lower()}: {verb.resume_note()}", code)
        if is_memory_short(error):
            return fail(screen, f"{SHORT_OF_MEMORY}: {_note(verb)}", ExitCode.BAD_INPUT)
        if place := kept_place(error):
            return fail(screen, place, ExitCode.BAD_INPUT)
        hint = "" if verb.debug else " Run it again with --debug for the traceback, and please report it."
        return fail(screen, f"unexpected {type(error).__name__}: {error}.{hint}", ExitCode.DEFECT)
    return _shown(screen, answer)


def _note(verb: Verb) -> str:
    """Return what a verb says of what it keeps, which may take memory too."""
    try:
        return verb.resume_note()
    except Exception:
        return "give the same command again where there is more."


def _shown(screen: Screen, answer: Answer) -> ExitCode:
    """Show an answer; that its reader has gone does not change it."""
    try:
        screen.show(answer.document, answer.page)
    except BrokenPipeError:
        drop_output()
    except OSError as error:
        drop_output()
        return fail(screen, f"the answer cannot be written: {error.strerror}.", ExitCode.BAD_INPUT)
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
