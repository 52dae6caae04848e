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
from prices.fitting import fit_kind, group, operators_of
from prices.networks import network
from prices.probes import Probe, append_probe, ask, read_probes

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
_SEEDS = (*range(63), *range(100, 120), *range(200, 224), *range(300, 324), *range(400, 424))


def probe(path: Path, seeds: Sequence[int]) -> None:
    """Ask about the networks of some seeds, but for what is in the file."""
    known = {(item.name, item.place) for item in read_probes(path)}
    for seed in seeds:
        graph = dovetail.normalize(network(seed))
        for place in PLACES:
            if (graph.name, place) in known or (place.endswith(_SPARSE) and seed % _EVERY):
                continue
            answer = ask(graph.name, graph, place)
            append_probe(path, answer)
            print(graph.name, place, answer.error or sum(len(item.operators) for item in answer.answers), flush=True)


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
        form = None if kinds and kind not in kinds else fit_kind(members)
        if form is not None:
            forms.setdefault(target, {})[kind, precision] = form
            errors = f"median {form.median_error:.0%}, nine tenths {form.upper_error:.0%}"
            print(f"{target} {precision.value} {kind}: {form.operators} operators, off by {errors}")
    (version,) = versions
    return {_sdk_name(target): FittedPrices(version, found) for target, found in forms.items()}


def _beside(fitted: Mapping[str, FittedPrices], kinds: Collection[str]) -> dict[str, FittedPrices]:
    """Return the forms of some kinds among those that the package has of the others; with no kinds only those."""
    found = dict(fitted)
    for part, prices in (fitted_prices() if kinds else {}).items():
        others = {key: form for key, form in prices.forms.items() if key[0] not in kinds}
        found[part] = replace(prices, forms={**others, **(fitted[part].forms if part in fitted else {})})
    return found


def spans(numbers: Sequence[int]) -> str:
    """Return numbers as spans without gaps, such as `0-62 100-119`."""
    ordered = sorted(set(numbers))
    starts = [number for number in ordered if number - 1 not in ordered]
    ends = [number for number in ordered if number + 1 not in ordered]
    return " ".join(f"{start}-{end}" for start, end in zip(starts, ends, strict=True))


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
    parser.add_argument("--kinds", nargs="+", default=[], help="fit these anew, and leave the others as they are")
    given = parser.parse_args()
    given.probes.parent.mkdir(parents=True, exist_ok=True)
    if given.what == "probe":
        probe(given.probes, given.seeds)
        return
    names = {f"seed{seed}" for seed in given.seeds}
    probes = [item for item in read_probes(given.probes) if item.name in names and not item.error]
    if not probes:
        parser.error(f"{given.probes} has no answers for these seeds; `probe` asks for them")
    prices = _beside(fit(probes, given.kinds), given.kinds)
    (version,) = {part.version for part in prices.values()}
    source = f"benchmarks/fit_prices.py: generated networks, seeds {spans(given.seeds)}"
    if given.kinds:
        others = json.loads(FILE.read_bytes())["source"].partition(";")[0]
        source = f"{others}; {', '.join(given.kinds)}: seeds {spans(given.seeds)}"
    FILE.write_bytes(prices_to_json(prices, version, source))


if __name__ == "__main__":
    main()
