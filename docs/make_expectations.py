"""Write docs/what-to-expect.md: the words of docs/expectations.toml with figures of the pages in docs/reference.

python docs/make_expectations.py            # writes the page
python docs/make_expectations.py --check    # fails when the page is out of date
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "what-to-expect.md"
CHIPS = {"v853": "V853, i8pc", "a311d": "A311D, u8", "imx8mp": "i.MX 8M Plus, u8"}


@dataclass(frozen=True)
class Family:
    """Models that behave alike, and what was seen of them."""

    title: str
    models: tuple[str, ...]
    text: str


def words() -> tuple[str, str, tuple[Family, ...]]:
    """Return what stands before the families, what stands behind them, and the families."""
    found = tomllib.loads((DOCS / "expectations.toml").read_text(encoding="utf-8"))
    families = (Family(item["title"], tuple(item["models"]), item["text"]) for item in found["family"])
    return found["head"], found["tail"], tuple(families)


def rows(page: str, head: str) -> Iterator[list[str]]:
    """Yield the cells of the first table of a page whose header begins so."""
    text = (DOCS / "reference" / page).read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(head)}.*\n\| ---.*\n((?:\|.*\n)+)", text, re.M)
    assert found is not None, f"{page} has no table '{head}'"
    for line in found[1].splitlines():
        yield [cell.strip() for cell in line.strip("|").split("|")]


def page() -> str:
    """Return the page."""
    tuned = {(model, low): cells for model, low, *cells in rows("models.md", "| model | low | float |")}
    healed = {
        (model, place): cells for model, place, *cells in rows("repair.md", "| model | place | samples | float |")
    }
    head, tail, families = words()
    told = {model for family in families for model in family.models}
    assert told == {model for model, _ in tuned} == {model for model, _ in healed}, "a model without a family"
    parts = [head]
    for family in families:
        parts += [f"## {family.title}", "", family.text]
        lines = [_line(model, chip, tuned, healed) for model in family.models for chip in CHIPS]
        parts += _table(
            ("model", "chip", "float", "8 bits", "shipped", "healed", "tuned", "raised", "on the CPU"), lines
        )
    return "\n".join([*parts, tail.format(judged="\n".join(_judged()).rstrip())])


Cells = dict[tuple[str, str], list[str]]


def _line(model: str, chip: str, tuned: Cells, healed: Cells) -> tuple[str, ...]:
    place = f"{chip} {'i8pc' if chip == 'v853' else 'u8'}"
    search = tuned.get((model, place))
    repair = healed[(model, "vsi:" + place.replace(" ", "@"))]
    shipped, better = repair[5], repair[6]
    if search is None:
        return (model, CHIPS[chip], "-", "-", shipped, better, "-", "-", "-")
    real, low, best, _, raised, cpu = search[:6]
    return (model, CHIPS[chip], real, low, shipped, better, best, raised, cpu)


def _judged() -> list[str]:
    found = []
    for model, tool, _, target, score, ms, _, others in rows("judge.md", "| model | tool |"):
        if tool in ("onnxruntime-u8", "onnxruntime-i8pc"):
            kind = "one scale a tensor" if tool.endswith("u8") else "a scale for each channel"
            found.append((target, kind, score, ms, others))
        assert model == "resnet8"
    return _table(("target", "weights", "score", "latency, ms", "nodes"), sorted(found))


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    text = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return [*text, *("| " + " | ".join(cells) + " |" for cells in lines), ""]


def main() -> int:
    """Write the page, or check it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
