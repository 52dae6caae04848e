"""How many runs `dovetail bisect` takes to find three planted operators of PP-OCRv3 by its subgraph.txt.

python benchmarks/bisect_paddle.py [--seed 0] [--count 20] [--json]

The log lists the operators of the shipped .pdmodel, not one fused. Every case draws three of them anew, one in each
third of the network or all three anywhere. A candidate passes when its rules take all three off the NPU; the judge
reads the file by Paddle Lite's rules and knows nothing else. With --model the units of the ONNX file are bisected, with
--lines the lines of the log.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import dovetail
import zoo.machine as machine
from dovetail.formats import WriteRequest, find_format
from dovetail.formats.demands import demands_of, find_word_format
from dovetail.ir import Graph
from dovetail.plan import Plan, parse_placement
from dovetail.search.bisect import (
    Bisection,
    BisectRequest,
    Setup,
    format_writer,
    make_setup,
    register_writer,
    setup_of_lines,
    start_bisection,
)
from dovetail.search.trial import Status
from zoo.catalogue import models_root
from zoo.table import text

_LOW, _HIGH = parse_placement("vsi:a311d@u8"), parse_placement("cpu@fp32")
_NAME = "paddle-subgraph of a benchmark"
_CULPRITS = 3
_SHAPE = {"x": (1, 3, 96, 160)}


@dataclass(frozen=True, slots=True)
class Row:
    """One bisection."""

    start: str
    spread: str
    case: int
    planted: tuple[str, ...]
    lines: int
    runs: int
    untested: int
    exact: bool
    """Whether what it names are the units (or the lines) of the planted operators, no more and no fewer."""
    empty: int
    """Candidates of no byte."""


def main() -> int:
    """Bisect; the exit code is 1 where a bisection took over 30 runs or named something else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20, help="cases of each kind")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    case = _Case.of(models_root() / "ppocrv3_det")
    rows = list(_rows(case, options.seed, options.count))
    if options.json:
        facts = machine.facts()
        print(json.dumps({"facts": facts, "seed": options.seed, "rows": [asdict(row) for row in rows]}))
    else:
        print("\n".join(machine.facts()), f"seed {options.seed}", _table(rows), sep="\n\n")
    return int(any(row.runs > 30 or not row.exact for row in rows))


def _table(rows: Sequence[Row]) -> str:
    kinds = list(dict.fromkeys((row.start, row.spread) for row in rows))
    cells = []
    for start, spread in kinds:
        found = [row for row in rows if (row.start, row.spread) == (start, spread)]
        runs = [row.runs for row in found]
        exact = sum(row.exact for row in found)
        middle, most = f"{statistics.median(runs):g}", str(max(runs))
        empty = str(sum(row.empty for row in found))
        cells.append((start, spread, str(found[0].lines), f"{exact} of {len(found)}", middle, most, empty))
    return text(("start", "planted", "lines", "exactly those", "runs, median", "most", "empty files"), cells)


@dataclass(frozen=True)
class _Case:
    graph: Graph
    listing: bytes
    operators: tuple[str, ...]
    """The lines of the log without its ends."""

    @classmethod
    def of(cls, folder: Path) -> _Case:
        graph = dovetail.normalize(dovetail.load_model(folder / "model.onnx", dovetail.LoadOptions(shapes=_SHAPE)))
        lines = list(_program(folder / "model.pdmodel"))
        listing = ("subgraph operators: \n" + "".join(f"{line}\n" for line in lines) + "\n").encode()
        return cls(graph, listing, tuple(line for line in lines if not line.startswith(("feed:", "fetch:"))))

    def setup(self, start: str, path: Path) -> Setup:
        if start == "--lines":
            return setup_of_lines(self.operators, BisectRequest(str(path), "exclude", _LOW, (_HIGH,)))
        request = WriteRequest(Plan(self.graph.digest, _LOW), self.graph, self.listing)
        demands = demands_of(find_word_format("paddle"), request, _LOW, (_HIGH,))
        register_writer(_NAME, format_writer(find_format("paddle-subgraph"), self.graph, self.listing))
        return make_setup(self.graph, BisectRequest(str(path), _NAME, _LOW, (_HIGH,), demands=demands))


def _rows(case: _Case, seed: int, count: int) -> Iterator[Row]:
    owners = _owners(case)
    known = [line for line in case.operators if owners[line]]
    for start in ("--lines", "--model"):
        for spread in ("anywhere", "one a third"):
            for number in range(count):
                rng = np.random.default_rng((seed, number, spread == "anywhere"))
                parts = [known] * _CULPRITS if spread == "anywhere" else np.array_split(np.array(known), _CULPRITS)
                planted = tuple(str(rng.choice(part)) for part in parts)
                if len(set(planted)) == _CULPRITS:
                    yield _bisect(case, start, spread, number, planted)


def _bisect(case: _Case, start: str, spread: str, number: int, planted: tuple[str, ...]) -> Row:
    with tempfile.TemporaryDirectory() as name:
        candidate = Path(name) / "subgraph.txt"
        found = start_bisection(Path(name) / "state", case.setup(start, candidate))
        empty = 0
        while found.finding is None:
            found.write_candidate()
            if found.finding is not None:
                break
            content = candidate.read_bytes()
            empty += not content
            found.record(Status.PASS if _off(content.decode(), case.operators) >= set(planted) else Status.FAIL)
    untested = sum(item.status is Status.CANNOT_TEST for item in found.answers)
    exact = not found.finding.unresolved and set(found.finding.culprits) == _wanted(case, found, planted)
    return Row(start, spread, number, planted, len(found.setup.lines), len(found.answers), untested, exact, empty)


def _wanted(case: _Case, found: Bisection, planted: tuple[str, ...]) -> set[str]:
    """Return the lines of a bisection that planted operators are in."""
    if not found.setup.members:
        return set(planted)
    owners = _owners(case)
    nodes = {node for line in planted for node in owners[line]}
    return {line for line, members in found.setup.members.items() if nodes & set(members)}


def _owners(case: _Case) -> dict[str, tuple[str, ...]]:
    binding = find_word_format("paddle").binding(WriteRequest(Plan(case.graph.digest, _LOW), case.graph, case.listing))
    lines = case.listing.decode().splitlines()[1:-1]
    return {line: binding.nodes_of.get(str(index), ()) for index, line in enumerate(lines)}


def _off(rules: str, operators: Sequence[str]) -> set[str]:
    """Return the operators that rules take off the NPU, as Paddle Lite v2.12 matches them."""
    found = set()
    wanted = [_fields(rule) for rule in rules.splitlines() if rule]
    for line in operators:
        kind, ins, outs = _fields(line)
        if any(kind == rule[0] and rule[1] <= ins and rule[2] <= outs for rule in wanted):
            found.add(line)
    return found


def _fields(line: str) -> tuple[str, frozenset[str], frozenset[str]]:
    kind, ins, outs = [*line.split(":"), "", ""][:3]
    return kind, frozenset(ins.split(",")) - {""}, frozenset(outs.split(",")) - {""}


def _program(path: Path) -> Iterator[str]:
    """Yield the operators of a Paddle program as its log prints them: a protobuf of blocks, operators and lists."""
    for block in _messages(path.read_bytes(), 1):
        for operator in _messages(block, 4):
            kind = next(_messages(operator, 3)).decode()
            ins = [name.decode() for slot in _messages(operator, 1) for name in _messages(slot, 2)]
            outs = [name.decode() for slot in _messages(operator, 2) for name in _messages(slot, 2)]
            yield f"{kind}:{','.join(dict.fromkeys(ins))}:{','.join(outs)}"


def _messages(data: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the length-delimited fields of one number."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        if key & 7 == 2:
            size, position = _varint(data, position)
            if key >> 3 == wanted:
                yield data[position : position + size]
            position += size
        elif key & 7 == 0:
            _, position = _varint(data, position)
        else:
            position += 4 if key & 7 == 5 else 8


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position


if __name__ == "__main__":
    raise SystemExit(main())
