"""What is recognised of models' outputs, right or wrong, and how surely? Write docs/reference/outputs.md.

python benchmarks/outputs_table.py [--model PART ...] [--set NAME ...] [--seeds N] [--samples N] [--jobs N]
    [--page [FILE]]
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

from dovetail.outputs import SURE, HeadView, OutputsView
from dovetail.outputs.describe import head_text
from dovetail.testing.heads.net import HeadFamily
from dovetail.testing.heads.sets import SETS, HeadSet
from dovetail.testing.heads.trial import HeadAnswer, answers
from zoo import machine
from zoo.catalogue import models_root
from zoo.expected import EXPECTED, Expected, see_model
from zoo.inputs import missing_environment, options_of
from zoo.shares import clopper_pearson
from zoo.table import markdown, text

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "outputs.md"
_MOST_KINDS = 3


@dataclass(frozen=True, slots=True)
class Model:
    """What was recognised of a model of the collection; without a view where it could not be loaded here."""

    expected: Expected
    view: OutputsView | None
    missing: str = ""

    @property
    def right(self) -> bool:
        """Tell whether every output is of the kind that its maker says."""
        wanted = {} if self.view is None else self.expected.kinds(self.view)
        return self.view is not None and all(
            head.kind is wanted[name] for head in self.view.heads for name in head.roles
        )

    @property
    def wrong_and_sure(self) -> bool:
        """Tell whether a head that is taken without asking is of another kind."""
        wanted = {} if self.view is None else self.expected.kinds(self.view)
        return self.view is not None and any(
            head.kind is not wanted[name] for head in self.view.heads if head.confidence >= SURE for name in head.roles
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is shown of the answer to one head."""

    family: str
    right: bool
    wrong_and_sure: bool
    confidence: float
    kinds: tuple[str, ...]
    """What the outputs are."""
    wrong: tuple[str, ...]
    """What outputs are taken for that are something else."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The answers to a set of heads, with the exporters' names and without any."""

    heads: HeadSet
    named: tuple[Outcome, ...]
    stripped: tuple[Outcome, ...]


def main() -> int:
    """Recognise the models and the sets that were asked for."""
    options = _arguments()
    sets: list[Seen] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        wanted = [item for item in EXPECTED if _asked(item.file, options.model)]
        models = list(pool.map(_model, wanted, itertools.repeat(options.samples)))
        print(f"{len(models)} models", file=sys.stderr, flush=True)
        for item in SETS:
            if not _asked(item.name, options.set):
                continue
            tasks = [(family, seed, True) for family in item.families for seed in range(options.seeds)]
            bare = [(family, 0, False) for family in item.families]
            found = tuple(pool.map(_outcome, [*tasks, *bare]))
            sets.append(Seen(item, found[: len(tasks)], found[len(tasks) :]))
            print(text(*_summary(sets[-1:])), file=sys.stderr, flush=True)
    if options.page is not None:
        write_page(options.page, models, sets, options)
    print(text(*_models(models)))
    print(text(*_summary(sets)))
    return 0


def _outcome(task: tuple[HeadFamily, int, bool]) -> Outcome:
    """Return what is recognised of a family's head with a seed, with the exporter's names or without."""
    family, seed, named = task
    (answer,) = answers([family], [seed], names=named)
    kinds = tuple(sorted({kind.value for kind in answer.head.kinds.values()}))
    wrong = tuple(head_text(head) for head in _wrong_heads(answer))
    return Outcome(family.name, answer.right, answer.wrong_and_sure, answer.confidence, kinds, wrong)


def _asked(name: str, parts: Sequence[str] | None) -> bool:
    return parts is None or any(part in name for part in parts)


def _model(expected: Expected, samples: int) -> Model:
    root = models_root()
    missing = missing_environment(root / expected.file, options_of(expected.file))
    return Model(expected, None if missing else see_model(expected.file, root, samples), missing)


Table = tuple[Sequence[str], list[list[str]]]


def _models(models: Sequence[Model]) -> Table:
    rows = []
    for model in models:
        seen = model.missing if model.view is None else "; ".join(head_text(head) for head in model.view.heads)
        verdict = "-" if model.view is None else _verdict(right=model.right, sure=model.wrong_and_sure)
        rows.append([model.expected.file, model.expected.kind.value, seen, verdict])
    return ("model", "its maker says", "recognised", "verdict"), rows


def _verdict(*, right: bool, sure: bool) -> str:
    return "right" if right else "wrong and sure" if sure else "wrong, asks"


def _summary(sets: Sequence[Seen]) -> Table:
    heads = ("set", "families", "first look", "sure and wrong then", "now", "sure and wrong", "asks", "without names")
    rows = []
    for seen in sets:
        first = seen.heads.first
        rows.append(
            [
                seen.heads.name,
                str(len(seen.heads.families)),
                "-" if first is None else share_text(first.right, first.heads),
                "-" if first is None else f"{first.wrong_and_sure} of {first.heads}",
                _right(seen.named),
                f"{_sure(seen.named)} of {len(seen.named)}",
                f"{sum(answer.confidence < SURE for answer in seen.named)} of {len(seen.named)}",
                f"{_right(seen.stripped)}, {_sure(seen.stripped)} sure and wrong",
            ]
        )
    return heads, rows


def _right(found: Sequence[Outcome]) -> str:
    return share_text(sum(answer.right for answer in found), len(found))


def _sure(found: Iterable[Outcome]) -> int:
    return sum(answer.wrong_and_sure for answer in found)


def share_text(hits: int, trials: int) -> str:
    """Return a share with its interval, such as `19 of 20, 95 % (75 to 100)`."""
    if not trials:
        return "-"
    low, high = clopper_pearson(hits, trials)
    return f"{hits} of {trials}, {100 * hits / trials:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def _families(seen: Seen) -> Table:
    rows = []
    for family in seen.heads.families:
        found = [answer for answer in seen.named if answer.family == family.name]
        confidences = sorted(answer.confidence for answer in found)
        wanted = sorted({kind for answer in found for kind in answer.kinds})
        wrong = [said for answer in found for said in answer.wrong]
        rows.append(
            [
                family.name,
                family.source,
                ", ".join(wanted),
                f"{sum(answer.right for answer in found)} of {len(found)}",
                f"{confidences[0]:.2f} to {confidences[-1]:.2f}",
                "; ".join(list(dict.fromkeys(wrong))[:_MOST_KINDS]),
            ]
        )
    return ("family", "published in", "is", "right", "confidence", "taken for"), rows


def _wrong_heads(answer: HeadAnswer) -> Iterable[HeadView]:
    for head in answer.view.heads:
        if any(head.kind is not answer.head.kinds[name] for name in head.roles):
            yield head


def write_page(path: Path, models: Sequence[Model], sets: Sequence[Seen], options: argparse.Namespace) -> None:
    """Write the page."""
    tried = [model for model in models if model.view is not None]
    right = sum(model.right for model in tried)
    sure = sum(model.wrong_and_sure for model in tried)
    lines = [
        "# What outputs are",
        "",
        "Made by `python benchmarks/outputs_table.py --page`; do not edit. What `dovetail inspect` and `dovetail tune` "
        "take the outputs of models for. A model or head is right where every output is of the right kind; *sure* is "
        f"a confidence of at least {SURE:g}, which is taken without asking. Intervals are Clopper and Pearson's, 95 %.",
        "",
        *(f"- {fact}" for fact in machine.facts()),
        "",
        "## Models of the collection",
        "",
        f"On at most {options.samples} of each model's own samples. The models are a collection that is not part of "
        "this repository; the recogniser was tried on them while it was made. "
        f"Right are {share_text(right, len(tried))}; {sure} are wrong and sure.",
        "",
        *markdown(*_models(models)).splitlines(),
        "",
        "## Generated heads",
        "",
        "Heads of published designs with random weights on random inputs, named and laid out as their exporters do. "
        f"Each family is drawn with seeds 0 to {options.seeds - 1}, which choose sizes, names, classes and variants. "
        "A set was written before the recogniser saw any of it; `first look` is how it did then, with seeds 0 to 3 "
        "(the set *first* with 0 to 2), before it was changed for what was wrong. Only that is evidence of how it does "
        "on designs that it does not know: `now` says what is left. Heads of a family are alike, so that intervals "
        "over heads are narrower than those over families would be. `without names` is one head a family, its outputs "
        "called by numbers only.",
        "",
        *markdown(*_summary(sets)).splitlines(),
        "",
        *_notes(sets),
    ]
    for seen in sets:
        lines += ["", f"### {seen.heads.name}", "", *markdown(*_families(seen)).splitlines()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _notes(sets: Sequence[Seen]) -> list[str]:
    """Return what the figures over all sets say together, heads and families counted."""
    after = [seen for seen in sets if seen.heads.first is not None]
    found = [answer for seen in after for answer in seen.named]
    families = [
        [answer for answer in seen.named if answer.family == item.name]
        for seen in after
        for item in seen.heads.families
    ]
    every = sum(all(answer.right for answer in group) for group in families)
    firsts = [seen.heads.first for seen in sets if seen.heads.first is not None]
    looked, right, sure = (sum(values) for values in zip(*map(astuple, firsts), strict=True)) if firsts else (0, 0, 0)
    return [
        f"Over all first looks: {share_text(right, looked)}; {sure} wrong and sure. Heads were written with an eye on "
        "designs that are hard to tell: those of the sets up to *fifth* by whom the recogniser was known to, those of "
        "*sixth* without a look at it.",
        "",
        f"Over all sets that were written after the recogniser, now: heads {_right(found)}; families that are right "
        f"with every seed {share_text(every, len(families))}; {_sure(found)} wrong and sure.",
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="only files whose path has this in it; may be repeated")
    parser.add_argument("--set", action="append", help="only sets whose name has this in it; may be repeated")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1, help="heads that are tried at once, a process each")
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
