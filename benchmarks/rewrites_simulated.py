"""What VeriSilicon's compiler and simulator make of networks that `advise --rewrites` would recommend.

python benchmarks/rewrites_simulated.py [--count N] [--seed N] [--seconds S] [--only WORD] [--log FILE] [--write]

Needs the SDK. `--write` replaces `src/dovetail/fit/simulated.json`, by which `advise` speaks where there is no SDK.
With `--log` it writes what was run line by line, and goes on where it was.
"""

from __future__ import annotations

import argparse
import functools
import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx

from dovetail.fit.advice import AdviceRequest, board_row, float_graph
from dovetail.fit.recorded import kinds_of
from dovetail.fit.simulating import simulate
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.passes.rewrites import REWRITES, Rewrite
from dovetail.report.advice import SimulatedOutcome
from dovetail.sdk.location import verisilicon_folder
from zoo.rewritable import FAMILIES, recurrent

_FILE = Path(__file__).resolve().parents[1] / "src" / "dovetail" / "fit" / "simulated.json"
_PLACES = (("vsi:v853", None), ("vsi:v853", "u8"), ("vsi:a311d", None), ("vsi:imx8mp", None))
_FIELDS = {
    SimulatedOutcome.RUNS: "equal",
    SimulatedOutcome.NEARLY: "nearly",
    SimulatedOutcome.DIFFERS: "differs",
    SimulatedOutcome.FAILS: "fails",
}
_Draw = Callable[[np.random.Generator], onnx.ModelProto]


def drawn(count: int, seed: int, only: str) -> Iterator[tuple[str, Graph]]:
    """Yield networks of families whose name has a word in it, with a name each: the family and the number."""
    families: dict[str, _Draw] = {}
    for op in ("LSTM", "GRU", "RNN"):
        families[f"{op} with a state"] = functools.partial(recurrent, asked=op, state=True)
        families[op] = functools.partial(recurrent, asked=op)
    families |= {name: draw for name, draw in FAMILIES.items() if draw is not recurrent}
    if not any(only in family for family in families):
        raise SystemExit(f"no family has '{only}' in its name; there are {', '.join(families)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn.onnx"
        for number, (family, draw) in enumerate(families.items()):
            for index in range(count if only in family else 0):
                onnx.save(draw(np.random.default_rng([seed, number, index])), path)
                request = AdviceRequest(path)
                yield f"{family} {index}", float_graph(path, request.load)


def cases(graph: Graph, request: AdviceRequest, target: str) -> Iterator[tuple[Rewrite, str, Graph]]:
    """Yield each rewrite that saves on a board, the operator that it is for, and the network with it."""
    before = board_row(graph, target, request).latency_ns
    for rewrite in REWRITES:
        nodes = rewrite.match(graph)
        after = normalize(rewrite(graph)) if nodes else graph
        if after == graph:
            continue
        latency = board_row(after, target, request).latency_ns
        if before is None or latency is None or latency >= before:
            continue
        for kind in kinds_of(graph, nodes):
            yield rewrite, kind, after


def measure(given: argparse.Namespace, seed: int) -> list[dict[str, str]]:
    """Return what became of each network with each rewrite on each board; what the log has is not run again."""
    log: Path | None = given.log
    rows = [] if log is None or not log.exists() else [json.loads(line) for line in log.read_text().splitlines()]
    known = {(row["network"], row["rewrite"], row["target"], row["asked"]) for row in rows}
    for name, graph in drawn(given.count, seed, given.only):
        for target, precision in _PLACES:
            request = AdviceRequest(Path(name), targets=(target,), precision=precision)
            for rewrite, kind, after in cases(graph, request, target):
                if (name, rewrite.name, target, precision or "") in known:
                    continue
                found = simulate(after, target, precision, given.seconds)
                row = {"network": name, "rewrite": rewrite.name, "kind": kind, "target": target}
                row |= {"asked": precision or "", "precision": found.precision, "outcome": found.outcome.value}
                row |= {"told": found.text}
                rows.append(row)
                print(json.dumps(row), flush=True)
                if log is not None:
                    with log.open("a") as stream:
                        stream.write(json.dumps(row) + "\n")
    return rows


def counted(rows: list[dict[str, str]]) -> list[Mapping[str, object]]:
    """Return counts by rewrite, operator, board and precision; what was not decided counts nowhere."""
    counts: dict[tuple[str, str, str, str], Counter[str]] = {}
    for row in rows:
        outcome = SimulatedOutcome(row["outcome"])
        if outcome in _FIELDS:
            key = (row["rewrite"], row["kind"], row["target"], row["precision"])
            counts.setdefault(key, Counter())[_FIELDS[outcome]] += 1
    heads = ("rewrite", "kind", "target", "precision")
    return [
        dict(zip(heads, key, strict=True)) | {name: found[name] for name in _FIELDS.values()}
        for key, found in sorted(counts.items())
    ]


def main() -> None:
    """Measure, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4, help="networks of each family")
    parser.add_argument("--seed", type=int, help="a new one if not given")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each run")
    parser.add_argument("--only", default="", metavar="WORD", help="families that have it in their name")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 16) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    rows = counted(measure(given, seed))
    document = {"seed": seed, "networks": given.count, "sdk": verisilicon_folder().version, "rows": rows}
    text = json.dumps(document, indent=1) + "\n"
    if given.write:
        _FILE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
