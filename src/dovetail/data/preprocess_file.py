"""Read a Preprocess from a small TOML file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import TypeVar

from dovetail.data.preprocess import Anchor, Channels, Interpolation, Layout, Preprocess, PreprocessStep, StepKind
from dovetail.errors import DataError
from dovetail.seal import parse_toml

_MAX_BYTES = 1 << 20
_SHORT_KEYS = ("resize", "resize_mode", "centre_crop", "pad", "anchor")
_KEYS = (*_SHORT_KEYS, "step", "channels", "layout", "mean", "scale", "interpolation")
_STEP_KEYS = ("kind", "size", "pad", "anchor", "interpolation")
_RESIZE_MODES = {
    "stretch": StepKind.RESIZE,
    "short_side": StepKind.RESIZE_SHORT,
    "letterbox": StepKind.LETTERBOX,
}

E = TypeVar("E", bound=Enum)


class _Table:
    """Read typed keys of one TOML table, with errors that name the place."""

    def __init__(self, values: Mapping[str, object], where: str, known: Collection[str]) -> None:
        self._values = values
        self.where = where
        for key in values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
                raise DataError(f"{where}: unknown key {key!r}.", hint=f"Did you mean {near[0]!r}?")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def choice(self, key: str, kind: type[E], default: E) -> E:
        return self.pick(key, {member.value: member for member in kind}, default)

    def pick(self, key: str, options: Mapping[str, E], default: E) -> E:
        if key not in self._values:
            return default
        value = self._values[key]
        if not isinstance(value, str) or value not in options:
            raise DataError(f"{self.where}: {key} = {value!r} is not one of {', '.join(options)}.")
        return options[value]

    def integer(self, key: str, default: int) -> int:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise DataError(f"{self.where}: {key} = {value!r} is not an integer.")
        return value

    def numbers(self, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        if key not in self._values:
            return default
        value = self._values[key]
        items = value if isinstance(value, list) else [value]
        numbers = [float(v) for v in items if isinstance(v, int | float) and not isinstance(v, bool)]
        if not items or len(numbers) != len(items):
            raise DataError(f"{self.where}: {key} = {value!r} is not a number or a list of numbers.")
        return tuple(numbers)

    def size(self, key: str) -> tuple[int, int]:
        """Read `[height, width]`, or one integer for both."""
        value = self._values.get(key)
        items = value if isinstance(value, list) else [value, value]
        sides = [v for v in items if isinstance(v, int) and not isinstance(v, bool)]
        if len(items) != 2 or len(sides) != 2:
            raise DataError(f"{self.where}: {key} = {value!r} is not an integer or [height, width].")
        return sides[0], sides[1]

    def tables(self, key: str) -> list[Mapping[str, object]]:
        value = self._values.get(key, [])
        tables = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        if not isinstance(value, list) or len(tables) != len(value):
            raise DataError(f"{self.where}: {key} is not a list of tables.", hint=f"Write [[{key}]].")
        return list(tables)


def load_preprocess(path: Path) -> Preprocess:
    """Read a preprocess file.

    Keys: `channels` (rgb, bgr, grey), `layout` (nchw, nhwc), `mean`, `scale` with value = (pixel - mean) *
    scale,
    `interpolation` (nearest, bilinear, bicubic as in Pillow, or opencv_bilinear); and for the geometry either
    `resize` (`[height, width]` or one integer), `resize_mode` (stretch, short_side, letterbox), `centre_crop`,
    `pad`, `anchor` (top_left, centre), or an ordered list of `[[step]]` with `kind` (resize, resize_short,
    centre_crop, letterbox), `size`, `pad`, `anchor`, and an `interpolation` of its own.
    Raises DataError; an unknown key is an error that names the nearest known one.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from error
    if len(data) > _MAX_BYTES:
        raise DataError(f"{path}: a preprocess file has at most {_MAX_BYTES} bytes.")
    try:
        values = parse_toml(data.decode())
    except ValueError as error:
        raise DataError(f"{path}: not a TOML file ({error}).") from error
    table = _Table(values, str(path), _KEYS)
    return _named(str(path), lambda: _preprocess(table))


def _named(where: str, build: Callable[[], Preprocess]) -> Preprocess:
    try:
        return build()
    except DataError as error:
        if error.message.startswith(where):
            raise
        raise DataError(f"{where}: {error.message}", hint=error.hint) from error


def _preprocess(table: _Table) -> Preprocess:
    default = Preprocess()
    layouts = {member.value: member for member in Layout}
    return Preprocess(
        steps=_steps(table),
        channels=table.choice("channels", Channels, default.channels),
        layout=table.pick("layout", layouts, Layout.NCHW) if "layout" in table else None,
        mean=table.numbers("mean", default.mean),
        scale=table.numbers("scale", default.scale),
        interpolation=table.choice("interpolation", Interpolation, default.interpolation),
    )


def _steps(table: _Table) -> tuple[PreprocessStep, ...]:
    short = [key for key in _SHORT_KEYS if key in table]
    if "step" in table:
        if short:
            raise DataError(f"{table.where}: {short[0]!r} and [[step]] exclude each other.", hint="Keep [[step]].")
        return tuple(_step(values, f"{table.where}: step {i}") for i, values in enumerate(table.tables("step"), 1))
    if "resize" not in table and short and short != ["centre_crop"]:
        raise DataError(f"{table.where}: {short[0]!r} without 'resize'.", hint="Add resize = [height, width].")
    steps: list[PreprocessStep] = []
    if "resize" in table:
        kind = table.pick("resize_mode", _RESIZE_MODES, StepKind.RESIZE)
        if kind is not StepKind.LETTERBOX and ("pad" in table or "anchor" in table):
            raise DataError(f"{table.where}: pad and anchor belong to resize_mode = 'letterbox'.")
        pad, anchor = table.integer("pad", 0), table.choice("anchor", Anchor, Anchor.CENTRE)
        steps.append(PreprocessStep(kind, *table.size("resize"), pad, anchor))
    if "centre_crop" in table:
        steps.append(PreprocessStep(StepKind.CENTRE_CROP, *table.size("centre_crop")))
    return tuple(steps)


def _step(values: Mapping[str, object], where: str) -> PreprocessStep:
    table = _Table(values, where, _STEP_KEYS)
    if "kind" not in table:
        raise DataError(f"{where}: 'kind' is missing.", hint=f"One of {', '.join(k.value for k in StepKind)}.")
    kind = table.choice("kind", StepKind, StepKind.RESIZE)
    if kind is not StepKind.LETTERBOX and ("pad" in table or "anchor" in table):
        raise DataError(f"{where}: pad and anchor belong to kind = 'letterbox'.")
    own = table.choice("interpolation", Interpolation, Interpolation.BILINEAR) if "interpolation" in table else None
    pad, anchor = table.integer("pad", 0), table.choice("anchor", Anchor, Anchor.CENTRE)
    return PreprocessStep(kind, *table.size("size"), pad, anchor, own)
