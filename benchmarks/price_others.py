"""Prices that parts lend each other: `python benchmarks/price_others.py [--answers FILE] [--page]`.

Asks VeriSilicon's performance model about generated networks on parts that price_page.py leaves out, appends the
answers to a file, and goes on where it was. With --page it writes docs/reference/price_others.md from them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import dovetail
from dovetail.backend.target import TargetProfile
from dovetail.ir import Graph
from fit_prices import spans
from price_page import place_rows
from prices.judging import unit_prices
from prices.networks import network
from prices.probes import append_probe, ask, read_probes
from zoo.table import markdown

PLACES = (
    *("vsi:t527@i8pc", "vsi:t527@i16", "vsi:a733@i8pc", "vsi:a733@i16"),
    *("vsi:rk1808@u8", "vsi:rk1808@i16", "vsi:stm32mp2@u8", "vsi:stm32mp2@i16", "vsi:s905d3@u8"),
    *("vsi:VIP9000NANOOI_PID0X10000031@i8pc", "vsi:VIP9000NANOOI_PID0X10000031@i16"),
    *("vsi:VIP9000NANODI_PID0X10000009@i8pc", "vsi:VIP9000NANODI_PID0X10000009@i16"),
)
"""The named parts that price_page.py leaves out, and two of the simulator's without a name here."""
SEEDS = (*range(85, 96), *range(146, 149), *range(246, 249), *range(346, 349))
"""Networks that nothing was fitted to or decided by on these parts; 80 to 84 decided that prices are lent."""
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "price_others.md"
_HEADS = ("placement", "prices of", "units", "fitted", "rank", "plain rank", "sum", "median", "plain sum", "within")
_TEXT = """# Prices that parts lend each other

Made by `python benchmarks/price_others.py --page`. [Prices without the SDK](price.md) were fitted to the vendor's
performance model for six parts. Every other part has those of one of its generation among these (arrays for bytes
alone have the A311D's of 8 bits), with its own cores and memory, as the simulator prints
them. Here they are judged by the vendor's model of the part itself, on
generated networks (seeds {seeds}) that nothing was fitted to or decided by on these parts.

`rank`: Spearman's coefficient of the units of all networks together, ours and the plain roofline's beside the vendor's
model; `sum` over sum, the `median` over networks, and how many networks' totals are `within` 15 %. `prices of`: whose
coefficients they are. The goal is ranks of at least 0.95 and totals within 15 %; most rows are below it. The plain
roofline is what stood there before. Sums are led by a few networks.

{table}
"""


def graphs(seeds: Sequence[int]) -> Mapping[str, Graph]:
    """Return the networks by name."""
    return {graph.name: graph for graph in (dovetail.normalize(network(seed)) for seed in seeds)}


def ask_all(path: Path, networks: Mapping[str, Graph], places: Sequence[str]) -> None:
    """Ask about every network at every placement, but for what is in the file."""
    known = {(item.name, item.place) for item in read_probes(path)}
    for name, graph in networks.items():
        for place in places:
            if (name, place) not in known:
                answer = ask(name, graph, place)
                append_probe(path, answer)
                print(name, place, answer.error, flush=True)


def rows(path: Path, networks: Mapping[str, Graph]) -> Iterator[list[str]]:
    """Yield a row for each placement that was asked about."""
    probes = [item for item in read_probes(path) if not item.error and item.name in networks]
    prices = {(item.name, item.place): unit_prices(networks[item.name], item) for item in probes}
    for place, *figures in place_rows(prices):
        target = dovetail.find_target(dovetail.parse_placement(place).target)
        assert isinstance(target, TargetProfile)
        assert target.hardware is not None
        assert target.hardware.prices is not None
        yield [place, target.hardware.prices.other or "its own", *figures]


def main() -> None:
    """Ask, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, default=Path("build/prices/others.jsonl"))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="networks to ask about")
    parser.add_argument("--places", nargs="+", default=PLACES, help="placements to ask about")
    parser.add_argument("--page", action="store_true", help="write the page from the answers, and ask for none")
    given = parser.parse_args()
    networks = graphs(given.seeds)
    if given.page:
        table = markdown(_HEADS, list(rows(given.answers, networks)))
        _PAGE.write_text(_TEXT.format(seeds=spans(given.seeds), table=table), encoding="utf-8")
        return
    given.answers.parent.mkdir(parents=True, exist_ok=True)
    ask_all(given.answers, networks, given.places)


if __name__ == "__main__":
    main()
