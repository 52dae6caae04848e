"""Prices without the SDK beside the vendor's model: `python benchmarks/price_page.py ask` and `page`.

`ask` asks VeriSilicon's performance model about the models of the collection ($DOVETAIL_MODELS), MobileNetV1 1.0 at
224 and generated networks of new seeds, none of which any price was fitted to, and appends the answers to a file; it
goes on where it was. `page` writes docs/reference/price.md from them, and needs no SDK.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dovetail.backends.verisilicon.parts.prices import FILE
from dovetail.ir import Graph
from fit_prices import spans
from prices.fitting import WORST
from prices.judging import UnitPrice, conversion_prices, increments, rank_agreement, unit_prices
from prices.probes import MIXED, Probe, append_probe, ask, read_probes
from prices.unseen import BOARD_MODEL, FRESH, fresh, unseen
from zoo.catalogue import models_root
from zoo.table import markdown

LOW = {"vsi:v853": ("u8", "i8pc"), "vsi:a311d": ("u8",), "vsi:imx8mp": ("u8",), "vsi:rv1126": ("u8",)}
"""Where a search starts on each part; it raises to 16 bits."""
HIGH = "i16"
BOARD_MS, BOARD_PLACE = 6.42, "vsi:a311d@u8"
"""MobileNetV1 1.0 at 224 on a Khadas VIM3: VeriSilicon/TIM-VX issue 121."""
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "price.md"
_BY = {"the vendor's model": "vendor_ns", "the fitted roofline": "ours_ns", "the plain roofline": "plain_ns"}
_RANK_GOAL, _TOTAL_GOAL = 0.95, 0.15
_NEW = frozenset(f"seed{seed}" for seed in FRESH)

Prices = dict[tuple[str, str], dict[str, UnitPrice]]


def places() -> Iterator[str]:
    """Return every placement."""
    for target, lows in LOW.items():
        yield from (f"{target}@{precision}" for precision in (*lows, HIGH))


def mixed_places() -> Iterator[str]:
    """Return every pair of precisions between which a search brings tensors."""
    for target, lows in LOW.items():
        yield from (f"{target}@{low}{MIXED}{HIGH}" for low in lows)


def ask_all(path: Path, graphs: Mapping[str, Graph]) -> None:
    """Ask about every model at every placement, and about conversions in new networks, but for what is in the file."""
    known = {(item.name, item.place) for item in read_probes(path)}
    for name, graph in graphs.items():
        for place in (*places(), *(mixed_places() if name in _NEW else ())):
            if (name, place) not in known:
                answer = ask(name, graph, place)
                append_probe(path, answer)
                print(name, place, answer.error or "", flush=True)


def _total_ms(units: Mapping[str, UnitPrice], field: str) -> float:
    return sum(float(getattr(item, field)) for item in units.values()) / 1e6


def _ratio(units: Mapping[str, UnitPrice], field: str = "ours_ns") -> float:
    return _total_ms(units, field) / _total_ms(units, "vendor_ns")


def _rank(units: Mapping[str, UnitPrice], field: str = "ours_ns") -> float:
    return rank_agreement([(item.vendor_ns, getattr(item, field)) for item in units.values()])


def _raises(prices: Prices, name: str) -> Iterator[tuple[str, str]]:
    """Return low and high placements at which a model has prices."""
    for target, lows in LOW.items():
        for low in lows:
            pair = f"{target}@{low}", f"{target}@{HIGH}"
            if all((name, place) in prices for place in pair):
                yield pair


def pooled(prices: Prices) -> Prices:
    """Return the units of all models together, at each placement."""
    found: Prices = {}
    for (name, place), units in prices.items():
        found.setdefault(("all", place), {}).update({f"{name}/{unit}": item for unit, item in units.items()})
    return found


def place_rows(prices: Prices) -> list[list[str]]:
    """Return a row for each placement: how many units, ranks, and how far totals are off."""
    rows = []
    for (_, place), units in pooled(prices).items():
        ratios = sorted(_ratio(own) for (_, at), own in prices.items() if at == place)
        within = sum(abs(ratio - 1.0) <= _TOTAL_GOAL for ratio in ratios)
        fitted = sum(item.fitted for item in units.values()) / len(units)
        ranks = f"{_rank(units):.3f}", f"{_rank(units, 'plain_ns'):.3f}"
        totals = f"{_ratio(units):.2f}", f"{ratios[len(ratios) // 2]:.2f}", f"{_ratio(units, 'plain_ns'):.2f}"
        rows.append([place, str(len(units)), f"{fitted:.0%}", *ranks, *totals, f"{within} of {len(ratios)}"])
    return rows


def raise_rows(prices: Prices) -> list[list[str]]:
    """Return a row for each raise from 8 to 16 bits: ranks of the increments, and their totals."""
    rows, together = [], pooled(prices)
    for low, high in _raises(together, "all"):
        steps = increments(together["all", low], together["all", high])
        ours, plain = (rank_agreement([(step[0], step[index]) for step in steps]) for index in (1, 2))
        sums = [sum(step[index] for step in steps) for index in range(3)]
        rows.append(
            [f"{low} to {HIGH}", f"{ours:.3f}", f"{plain:.3f}", f"{sums[1] / sums[0]:.2f}", f"{sums[2] / sums[0]:.2f}"]
        )
    return rows


def conversion_rows(graphs: Mapping[str, Graph], probes: Sequence[Probe]) -> list[list[str]]:
    """Return a row for each pair of precisions: how far the prices of conversions are off, ours and the roofline's."""
    rows = []
    for place in mixed_places():
        own = [item for item in probes if item.place == place and item.name in _NEW]
        found = [price for item in own for price in conversion_prices(graphs[item.name], item) if price.vendor_ns]
        vendor, ours, plain = (np.array([getattr(item, field) for item in found]) for field in _BY.values())
        errors = (float(np.median(np.abs(prices - vendor) / vendor)) for prices in (ours, plain))
        sums = (prices.sum() / vendor.sum() for prices in (ours, plain))
        texts = (*(f"{error:.0%}" for error in errors), *(f"{total:.2f}" for total in sums))
        rows.append([place.replace(MIXED, " and "), str(len(found)), *texts])
    return rows


def model_rows(prices: Prices) -> list[list[str]]:
    """Return a row for each model at each placement."""
    return [
        [
            *(name, place, str(len(units))),
            *(f"{_total_ms(units, field):.3f}" for field in ("vendor_ns", "ours_ns")),
            *(f"{_ratio(units):.2f}", f"{_rank(units):.3f}"),
        ]
        for (name, place), units in prices.items()
    ]


def form_rows() -> list[list[str]]:
    """Return a row for each part and kind of work that was fitted: operators and errors on operators left out."""
    document = json.loads(FILE.read_bytes())
    rows = []
    for part, kinds in document["parts"].items():
        for kind, forms in kinds.items():
            texts = [
                f"{name}: {form['median_error']:.0%}, {form['upper_error']:.0%} of {form['operators']}"
                for name, form in forms.items()
            ]
            rows.append([part, kind, "; ".join(texts)])
    return rows


_TEXT = """# Prices without the SDK

Made by `python benchmarks/price_page.py page`, after `ask`. Where VeriSilicon's SDK is not there, units are priced by
a roofline that was fitted to the vendor's performance model ({version}) by `benchmarks/fit_prices.py`:
{source}.
Here it is judged by that model on other networks: those of the collection and MobileNetV1 1.0 at 224 (weights of
seed 0). No coefficient was fitted to any of them, nor to a figure from a board.

But the models of the collection are not unseen. After results on them had been looked at, families of generated
networks were added: gates with quartered pictures (seeds from 100), wide layers on small maps (from 200), detectors'
heads (from 300), decoders (from 400), recurrent cells and layers of a few features (from 500), and heads that are
decoded (from 600); kinds of work of their own were made of gates, quartered pictures, what is copied when it is joined,
what makes few elements, and what has a constant operand; rows that become columns got a cost that grows with their
square; and where a form's median error is beyond {worst:.0%} and the plain roofline's is less, that stands, but for
small work. So the tables of these models are no evidence of how far off prices are on models that nobody has looked at.
Nor is the last table, that of what was fitted: its errors are on networks that each fit had left out, but it is these
errors that decide which forms stay, and the quantities were chosen by them.

What is evidence of the unseen is the first table: networks of new seeds ({seeds}), on
which nothing was fitted or chosen. They are from the same generator, so they say what to expect of networks like
those, and not of others.

Goals: ranks of at least {rank_goal}, totals within {total_goal:.0%}. What is below them is below them.
{missed}
Where the SDK is there, `dovetail tune` asks the model itself first, and waits at most `--vendor-seconds` for it; the
report says of each price where it is from (`modelled`, `fitted`, `roofline`).

## Networks of new seeds

As in the next two tables, of generated networks that nothing was fitted to or chosen on.

{fresh_places}

{fresh_raises}

What it takes to bring tensors from one precision to the other, in the same networks with a third of the units raised:

{conversions}

## Units of the collection

Units of all models together: Spearman's rank coefficient of their latencies, ours and the plain roofline's beside the
vendor's model; the sum over the sum, the median over models, and how many models' totals are within {total_goal:.0%}.

{places}

## Raising to 16 bits

What a search weighs: the increment of each unit.

{raises}

## A figure from a board

MobileNetV1 1.0 at 224, uint8, on the A311D of a Khadas VIM3 took {board} ms (VeriSilicon/TIM-VX issue 121).

{boards}

## Models

{models}

## What was fitted

Errors on generated operators of networks that the fit had left out (five folds): the median, and what nine tenths are
within.

{forms}
"""


def page(prices: Prices, conversions: Sequence[Sequence[str]]) -> str:
    """Return the page; `conversions` are the rows of their table."""
    document = json.loads(FILE.read_bytes())
    new = {key: units for key, units in prices.items() if key[0] in _NEW}
    prices = {key: units for key, units in prices.items() if key not in new}
    board = prices[BOARD_MODEL, BOARD_PLACE]
    boards = [
        [text, f"{ms:.2f}", f"{ms / BOARD_MS - 1.0:+.1%}"]
        for text, ms in ((text, _total_ms(board, field)) for text, field in _BY.items())
    ]
    units, raised = place_rows(prices), raise_rows(prices)
    low = [row[0] for row in (*units,) if float(row[3]) < _RANK_GOAL]
    far = [row[0] for row in units if abs(float(row[5]) - 1.0) > _TOTAL_GOAL]
    weak = [row[0] for row in raised if float(row[1]) < _RANK_GOAL]
    missed = [
        f"\n{text}: {', '.join(names)}.\n"
        for text, names in (
            ("Ranks of units are below the goal at", low),
            ("Ranks of increments are below it at", weak),
            ("Sums are off by more at", far),
        )
        if names
    ]
    heads = ("model", "placement", "units", "vendor ms", "ours ms", "ratio", "rank")
    raise_heads = ("raise", "rank", "plain rank", "sum", "plain sum")
    between_heads = ("between", "conversions", "median off", "plain median", "sum", "plain sum")
    place_heads = ("placement", "units", "fitted", "rank", "plain rank", "sum", "median", "plain sum", "within")
    return _TEXT.format(
        version=document["sdk"],
        source=document["source"].partition(": ")[2],
        rank_goal=_RANK_GOAL,
        total_goal=_TOTAL_GOAL,
        missed="".join(missed),
        seeds=spans(FRESH),
        worst=WORST,
        fresh_places=markdown(place_heads, place_rows(new)),
        fresh_raises=markdown(raise_heads, raise_rows(new)),
        conversions=markdown(between_heads, conversions),
        places=markdown(place_heads, units),
        raises=markdown(raise_heads, raised),
        board=BOARD_MS,
        boards=markdown(("by", "ms", "off"), boards),
        models=markdown(heads, model_rows(prices)),
        forms=markdown(("part", "kind", "precisions"), form_rows()),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("ask", "page"))
    parser.add_argument("--answers", type=Path, default=Path("build/prices/unseen.jsonl"))
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--names", nargs="*", default=[], help="ask about these models only")
    given = parser.parse_args(arguments)
    graphs = {**unseen(models_root(given.models)), **fresh()}
    if given.what == "ask":
        given.answers.parent.mkdir(parents=True, exist_ok=True)
        ask_all(given.answers, {name: graphs[name] for name in given.names or graphs})
        return
    probes = [item for item in read_probes(given.answers) if not item.error]
    whole = [item for item in probes if MIXED not in item.place]
    prices = {(item.name, item.place): unit_prices(graphs[item.name], item) for item in whole}
    _PAGE.write_text(page(prices, conversion_rows(graphs, probes)), encoding="utf-8")


if __name__ == "__main__":
    main()
