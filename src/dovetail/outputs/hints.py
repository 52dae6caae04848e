"""What a person says of a model's outputs, in one line or in a TOML file."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from dovetail.errors import DataError
from dovetail.outputs.evidence import Hypothesis
from dovetail.outputs.view import HeadView, Kind, OutputRole, OutputsView
from dovetail.seal import parse_toml

_MOST_BYTES = 1 << 20
_KIND = "kind"
_THRESHOLD = "threshold"
_EXAMPLE = "boxes=bbox_*,scores=cls_*,kind=detection"


@dataclass(frozen=True, slots=True)
class Hints:
    """The kind of the model, and the roles of outputs by name; a name may hold `*` and `?`."""

    kind: Kind | None = None
    roles: Mapping[OutputRole, tuple[str, ...]] = field(default_factory=dict)
    threshold: float | None = None
    """The score from which a detection, or a pixel of one score, counts; None for what is usual."""

    @property
    def name_outputs(self) -> bool:
        """Tell whether they say what the outputs are, not only from which score on something counts."""
        return self.kind is not None or bool(self.roles)

    def allow(self, hypothesis: Hypothesis) -> bool:
        """Tell whether a hypothesis is what the person says, as far as it is said.

        A kind beside roles is said of the outputs that are named.
        """
        about = not self.roles or any(self.role_of(name) is not None for name in hypothesis.roles)
        if about and self.kind is not None and hypothesis.kind is not self.kind:
            return False
        return all(self.role_of(name) in (None, role) for name, role in hypothesis.roles.items())

    def role_of(self, output: str) -> OutputRole | None:
        """Return the role that is given to an output, or None."""
        for role, patterns in self.roles.items():
            if any(_fits(output, pattern) for pattern in patterns):
                return role
        return None

    def speak_of(self, head: HeadView) -> bool:
        """Tell whether they say what a head is: by an output of it, or by the kind alone."""
        return not self.roles or any(self.role_of(name) is not None for name in head.roles)

    def check(self, outputs: Sequence[str]) -> None:
        """Raise DataError for a pattern that fits no output."""
        for role, patterns in self.roles.items():
            for pattern in patterns:
                if not any(_fits(output, pattern) for output in outputs):
                    raise DataError(
                        f"outputs: {role.value} = '{pattern}' fits no output; there are {', '.join(outputs)}.",
                        option="decisions",
                    )


def _fits(output: str, pattern: str) -> bool:
    """Tell whether a name fits a pattern; brackets stand for themselves."""
    return fnmatchcase(output, pattern.replace("[", "[[]"))


def parse_hints(text: str) -> Hints:
    """Return the hints of a line such as `boxes=bbox_*,scores=cls_*,kind=detection`; raise DataError."""
    values: dict[str, list[str]] = {}
    for item in text.split(","):
        key, separator, value = (part.strip() for part in item.partition("="))
        if not separator or not key or not value:
            raise DataError(
                f"outputs: '{item.strip()}' is not role=name.", hint=f"For example: {_EXAMPLE}.", option="decisions"
            )
        values.setdefault(key, []).append(value)
    return _hints(values, "outputs")


def read_hints(text: str) -> Hints:
    """Return the hints of a line, or of the TOML file that it names; raise DataError."""
    return parse_hints(text) if "=" in text else load_hints(Path(text))


def load_hints(path: Path) -> Hints:
    """Return the hints of a TOML file: a table `[outputs]` with `kind`, and a name or a list for each role."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise DataError(f"{path}: larger than {_MOST_BYTES} bytes.", option="decisions")
        values = parse_toml(data.decode()).get("outputs", {})
    except OSError as error:
        hint = f"Write a line such as '{_EXAMPLE}', or name a TOML file."
        raise DataError(f"{path}: cannot be read ({error.strerror}).", hint=hint, option="decisions") from error
    except ValueError as error:
        raise DataError(f"{path}: not a TOML file ({error}).", option="decisions") from error
    if not isinstance(values, dict) or not values:
        raise DataError(
            f"{path}: there is no table [outputs].", hint='For example: kind = "detection".', option="decisions"
        )
    listed = {str(key): value if isinstance(value, list) else [value] for key, value in values.items()}
    listed |= {key: [str(item) for item in listed[key]] for key in (_THRESHOLD,) if key in listed}
    for key, names in listed.items():
        if not all(isinstance(name, str) for name in names):
            raise DataError(f"{path}: {key} is not a name or a list of names.", option="decisions")
    return _hints(listed, str(path))


def _hints(values: Mapping[str, Sequence[str]], where: str) -> Hints:
    known = {role.value: role for role in OutputRole}
    kinds = {kind.value: kind for kind in Kind}
    kind = None
    threshold = None
    roles: dict[OutputRole, tuple[str, ...]] = {}
    for key, names in values.items():
        if key == _THRESHOLD:
            threshold = _threshold(names, where)
        elif key == _KIND:
            if len(names) != 1 or names[0] not in kinds:
                raise DataError(
                    f"{where}: kind = '{', '.join(names)}' is not one of {', '.join(kinds)}.", option="decisions"
                )
            kind = kinds[names[0]]
        elif key in known:
            roles[known[key]] = tuple(names)
        else:
            near = difflib.get_close_matches(key, (_KIND, _THRESHOLD, *known), n=1, cutoff=0.0)
            raise DataError(
                f"{where}: there is no role '{key}'.", hint=f"Did you mean {near[0]!r}?", option="decisions"
            )
    return Hints(kind, roles, threshold)


def _threshold(texts: Sequence[str], where: str) -> float:
    """Return the score that texts say; raise DataError unless there is one, between 0 and 1."""
    try:
        (threshold,) = map(float, texts)
    except ValueError:
        threshold = math.nan
    if not 0.0 < threshold < 1.0:
        said = ", ".join(texts)
        raise DataError(f"{where}: threshold = '{said}' is not one number between 0 and 1.", option="decisions")
    return threshold


def hints_line(view: OutputsView) -> str:
    """Return the line that says what is seen, ready to be corrected: the surest head, the other unsure ones as values.

    Bare values come last: beside points or boxes they say how sure the model is. A kind is said where there is nothing
    else. The line is empty where nothing is recognised at all, and where a name cannot stand in a line.
    """
    known = (head for head in view.decisions if head.kind is not Kind.UNKNOWN)
    heads = sorted(known, key=lambda head: (head.kind is Kind.REGRESSION, -head.confidence))
    others = [name for head in view.decisions if not head.sure and head not in heads[:1] for name in head.roles]
    sayable = bool(heads) and not any(sign in name for name in (*heads[0].roles, *others) for sign in ",=")
    return _line(heads[0], others) if sayable else ""


def _line(head: HeadView, others: Sequence[str]) -> str:
    items = [f"{role.value}={name}" for name, role in head.roles.items()]
    rest = [f"{OutputRole.VALUES.value}={name}" for name in others] or [f"{_KIND}={head.kind.value}"]
    return ",".join([*items, *rest])
