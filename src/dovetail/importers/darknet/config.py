"""Darknet's .cfg files: sections of `key=value` lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.errors import LoadError

_MAX_SECTIONS = 10_000
_MAX_NUMBER = 2**24


@dataclass(frozen=True, slots=True)
class Section:
    """One layer's settings; `place` is the file and line that messages name."""

    kind: str
    place: str
    settings: Mapping[str, str]

    def integer(self, key: str, default: int) -> int:
        """Return a whole number; raise LoadError when it is not one or is out of proportion."""
        text = self.settings.get(key)
        try:
            value = default if text is None else int(text)
        except ValueError as error:
            raise LoadError(f"{self.place}: {key}={text} is not a whole number.", source_node=self.place) from error
        if abs(value) > _MAX_NUMBER:
            raise LoadError(f"{self.place}: {key}={value} is out of proportion.", source_node=self.place)
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number; raise LoadError when it is not one."""
        text = self.settings.get(key)
        try:
            return default if text is None else float(text)
        except ValueError as error:
            raise LoadError(f"{self.place}: {key}={text} is not a number.", source_node=self.place) from error

    def integers(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        items = [item.strip() for item in self.settings.get(key, "").split(",")]
        return tuple(Section(self.kind, self.place, {key: item}).integer(key, 0) for item in items if item)

    def fail(self, why: str, hint: str | None = None) -> LoadError:
        """Return the error that refuses this layer."""
        return LoadError(f"{self.place}: [{self.kind}]: {why}.", source_node=self.place, hint=hint)


def read_config(text: str, where: str) -> list[Section]:
    """Return the sections of a .cfg text; raise LoadError naming the line that is wrong."""
    sections: list[Section] = []
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if not plain or plain[0] in "#;":
            continue
        place = f"{where}:{number}"
        if plain.startswith("["):
            if not plain.endswith("]"):
                raise LoadError(f"{place}: the section's name is not closed.", source_node=place)
            settings = {}
            sections.append(Section(plain[1:-1].strip(), place, settings))
        else:
            key, sign, value = plain.partition("=")
            if not sign or not sections:
                raise LoadError(f"{place}: 'key=value' below a section is expected.", source_node=place)
            settings[key.strip()] = value.strip()
    if len(sections) < 2 or sections[0].kind not in ("net", "network") or len(sections) > _MAX_SECTIONS:
        raise LoadError(f"{where}: is no Darknet network: it has {len(sections)} sections and must start with [net].")
    return sections
