"""Fit the prices of operators to VeriSilicon's performance model: `python benchmarks/fit_prices.py probe` and `fit`.

`probe` asks the vendor's compiler about generated networks (`prices/networks.py`; nothing is run) and appends the
answers to a file; it goes on where it was. `fit` makes `prices.json` of the package from them. `probe` needs the SDK.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import dovetail
from dovetail.backend.fitted import FittedForm, FittedPrices
from dovetail.backend.target import TargetProfile
from dovetail.backends.verisilicon.parts.prices import FILE, fitted_prices, prices_to_json
from dovetail.ir.precision import Precision
from prices.fitting import SMALL, fit_kind, group, operators_of
from prices.networks import network
from prices.probes import MIXED, Probe, append_probe, ask, read_probes

TARGETS = ("vsi:v853", "vsi:a311d", "vsi:imx8mp", "vsi:rv1126", "vsi:t527", "vsi:a733")
"""At least one of each generation, but for arrays of bytes alone (S905D3): the others of it have its prices."""
PLACES: tuple[str, ...] = (
    *(f"{target}@{precision}" for precision in ("u8", "i16") for target in TARGETS),
    *("vsi:v853@i8pc", "vsi:t527@i8pc", "vsi:a733@i8pc"),
    *(f"{target}@i8" for target in TARGETS),
)
"""Weights per channel run on the shaders of the older parts, of which the vendor's model knows only the traffic."""
_SPARSE, _EVERY = "@i8", 4
"""Signed bytes per tensor are probed on every fourth network: few use them."""
CONVERTING: tuple[str, ...] = (
    *(f"{target}@u8{MIXED}i16" for target in TARGETS),
    *(f"{target}@i8pc{MIXED}i16" for target in ("vsi:v853", "vsi:t527", "vsi:a733")),
)
"""Where a plan brings tensors from one precision to the other; probed on every third network."""
_SEEDS = (
    *range(63),
    *range(100, 120),
    *range(200, 224),
    *range(300, 324),
    *range(400, 424),
    *range(500, 524),
    *range(600, 624),
)


def probe(path: Path, seeds: Sequence[int]) -> None:
    """Ask about the networks of some seeds, but for what is in the file."""
    known = {(item.name, item.place) for item in read_probes(path)}
    for seed in seeds:
        graph = dovetail.normalize(network(seed))
        for place in (*PLACES, *CONVERTING):
            if (graph.name, place) in known or seed % _every(place):
                continue
            answer = ask(graph.name, graph, place)
            append_probe(path, answer)
            print(graph.name, place, answer.error or sum(len(item.operators) for item in answer.answers), flush=True)


def _every(place: str) -> int:
    return 3 if MIXED in place else _EVERY if place.endswith(_SPARSE) else 1


def fit(probes: Iterable[Probe], kinds: Collection[str] = ()) -> dict[str, FittedPrices]:
    """Return the prices by the simulator's name of the part; print how far off they are.

    With `kinds` only these are fitted.
    """
    operators, graphs, versions = [], {}, dict[str, None]()
    for item in probes:
        seed = int(item.name.removeprefix("seed"))
        if seed not in graphs:
            graphs[seed] = dovetail.normalize(network(seed))
        operators += list(operators_of(graphs[seed], item))
        versions.update((answer.version, None) for answer in item.answers)
    forms: dict[str, dict[tuple[str, Precision], FittedForm]] = {}
    for (target, kind, precision), members in sorted(group(operators).items(), key=str):
        form = fit_kind(members) if _is_meant(kind, kinds) else None
        if form is not None:
            forms.setdefault(target, {})[kind, precision] = form
            errors = f"median {form.median_error:.0%}, nine tenths {form.upper_error:.0%}"
            print(f"{target} {precision.value} {kind}: {form.operators} operators, off by {errors}")
    (version,) = versions
    return {_sdk_name(target): FittedPrices(version, found) for target, found in forms.items()}


def _is_meant(kind: str, kinds: Collection[str]) -> bool:
    """Tell whether a kind is one of some; a first word, as `small`, stands for all that begin with it, none for all."""
    return not kinds or kind in kinds or kind.partition(" ")[0] in kinds


def _beside(
    fitted: Mapping[str, FittedPrices], kinds: Collection[str], probed: Collection[tuple[str, Precision]]
) -> dict[str, FittedPrices]:
    """Return the forms that were fitted among those that the package has of other kinds, parts and precisions.

    With no kinds only those that were fitted.
    """
    found = dict(fitted_prices()) if kinds else {}
    for part, prices in fitted.items():
        known = found[part].forms if part in found else {}
        others = {
            key: form for key, form in known.items() if not _is_meant(key[0], kinds) or (part, key[1]) not in probed
        }
        found[part] = replace(prices, forms={**others, **prices.forms})
    return found


def spans(numbers: Sequence[int]) -> str:
    """Return numbers as spans without gaps, such as `0-62 100-119 200`."""
    ordered = sorted(set(numbers))
    starts = [number for number in ordered if number - 1 not in ordered]
    ends = [number for number in ordered if number + 1 not in ordered]
    pairs = zip(starts, ends, strict=True)
    return " ".join(f"{start}-{end}" if end > start else str(start) for start, end in pairs)


def _sdk_name(target: str) -> str:
    profile = dovetail.find_target(target)
    assert isinstance(profile, TargetProfile)
    assert profile.hardware is not None
    return profile.hardware.sdk_name


def main() -> None:
    """Probe, or fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("probe", "fit"))
    parser.add_argument("--probes", type=Path, default=Path("build/prices/probes.jsonl"))
    parser.add_argument("--seeds", type=int, nargs="+", default=_SEEDS)
    anew = f"fit these anew, and leave the others as they are; '{SMALL}' stands for all that begin with it"
    parser.add_argument("--kinds", nargs="+", default=[], help=anew)
    given = parser.parse_args()
    given.probes.parent.mkdir(parents=True, exist_ok=True)
    if given.what == "probe":
        probe(given.probes, given.seeds)
        return
    names = {f"seed{seed}" for seed in given.seeds}
    probes = [item for item in read_probes(given.probes) if item.name in names and not item.error]
    if not probes:
        parser.error(f"{given.probes} has no answers for these seeds; `probe` asks for them")
    places = [dovetail.parse_placement(item.place) for item in probes if MIXED not in item.place]
    probed = {(_sdk_name(place.target), place.precision) for place in places}
    prices = _beside(fit(probes, given.kinds), given.kinds, probed)
    (version,) = {part.version for part in prices.values()}
    source = f"benchmarks/fit_prices.py: generated networks, seeds {spans(given.seeds)}"
    if given.kinds:
        others = json.loads(FILE.read_bytes())["source"].split("; ")
        anew = f"{', '.join(given.kinds)}: seeds "
        source = "; ".join([*(text for text in others if not text.startswith(anew)), f"{anew}{spans(given.seeds)}"])
    FILE.write_bytes(prices_to_json(prices, version, source))


if __name__ == "__main__":
    main()
