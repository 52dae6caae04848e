"""A run as it is shown: its page and its network, in one file that a report is made of again."""

from __future__ import annotations

import json
import types
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from dovetail.errors import DovetailError
from dovetail.report.network import DrawnNetwork
from dovetail.report.page import Block, Facts, Page, Pictures, Prose, Table, Tone
from dovetail.report.saved import read_document
from dovetail.seal import sealed

VIEW_FILE = "report.json"
_KIND, _SCHEMA = "dovetail-view", 1
BLOCKS: dict[str, type[Table] | type[Facts] | type[Prose] | type[Pictures]] = {
    "table": Table,
    "facts": Facts,
    "prose": Prose,
    "pictures": Pictures,
}
"""Kinds of blocks, by the word that stands for them."""


@dataclass(frozen=True, slots=True)
class RunView:
    """What is shown of one search."""

    name: str
    page: Page
    network: DrawnNetwork
    reproduce: tuple[str, ...] = ()
    """How to get it again: versions, files and the request, one a line."""

    def document(self) -> dict[str, object]:
        """Return it as plain data, in the form of the schema of `dovetail report --json`."""
        return {
            "name": self.name,
            "title": self.page.title,
            "verdict": self.page.verdict,
            "tone": self.page.tone.value,
            "blocks": [_block_document(block) for block in self.page.blocks],
            "network": _plain(self.network),
            "reproduce": list(self.reproduce),
        }

    def to_json(self) -> str:
        """Return it as JSON text."""
        document = {"schema": _SCHEMA, "kind": _KIND, **self.document()}
        return json.dumps(sealed(document), ensure_ascii=False, separators=(",", ":")).replace('",', '", ', 2) + "\n"


def load_view(path: Path) -> RunView:
    """Return the run that a folder of a search, or its report.json, shows; raise DovetailError naming what is wrong."""
    file = path / VIEW_FILE if path.is_dir() else path
    if not file.is_file():
        raise DovetailError(f"{path}: no {VIEW_FILE} there.", hint="Give the folder that 'dovetail tune' wrote.")
    document = read_document(file, _KIND)
    try:
        blocks = tuple(_block(item) for item in _typed(list[Any], document["blocks"]))
        page = Page(
            title=_typed(str, document["title"]),
            blocks=blocks,
            verdict=_typed(str, document["verdict"]),
            tone=_typed(Tone, document["tone"]),
        )
        network = _typed(DrawnNetwork, document["network"])
        _check(network)
        reproduce = _typed(tuple[str, ...], document["reproduce"])
        return RunView(_typed(str, document["name"]), page, network, reproduce)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise DovetailError(f"{file}: malformed: {str(error)[:120]}.", hint="Run 'dovetail tune' again.") from error


def _check(network: DrawnNetwork) -> None:
    """Raise ValueError where a unit reads what does not come before it."""
    for index, unit in enumerate(network.units):
        if any(not 0 <= source < index for source in unit.inputs):
            raise ValueError(f"unit {index} reads a unit that does not come before it")


def _block_document(block: Block) -> dict[str, object]:
    kind = next(name for name, one in BLOCKS.items() if isinstance(block, one))
    plain = _plain(block)
    assert isinstance(plain, dict)
    return {"block": kind, **plain}


def _block(item: object) -> Block:
    if not isinstance(item, dict) or item.get("block") not in BLOCKS:
        raise TypeError("a block of a page is expected")
    rest = {name: value for name, value in item.items() if name != "block"}
    made: Block = _typed(BLOCKS[item["block"]], rest)
    return made


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        # Six digits are more than any screen shows; JSON has no NaN.
        return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else None
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _typed(hint: Any, value: object) -> Any:
    """Return plain data as a value of the hinted type; raise TypeError or ValueError when it is none."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        (kind,) = (item for item in inner if item is not type(None))
        return _typed(kind, value)
    if origin in (tuple, list) and isinstance(value, list):
        if origin is list or inner[1:] == (...,):
            made = [item if inner[0] is Any else _typed(inner[0], item) for item in value]
            return made if origin is list else tuple(made)
        return tuple(_typed(kind, item) for kind, item in zip(inner, value, strict=True))
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        hints = get_type_hints(hint)
        if value.keys() != hints.keys():
            raise TypeError(f"{hint.__name__}: other fields than {', '.join(hints)}")
        return hint(**{name: _typed(hints[name], item) for name, item in value.items()})
    if hint is bytes and isinstance(value, str):
        return b64decode(value, validate=True)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and type(value) is hint:
        return value
    raise TypeError(f"{str(value)[:40]!r} is no {hint}")
