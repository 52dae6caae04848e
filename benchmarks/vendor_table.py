"""Print how far `npusim` (exact) is from the vendor's simulator, and exact arithmetic beside it: operator x part.

Run `python benchmarks/vendor_table.py [--markdown docs/reference/vendor.md] [--json FILE] [--target vsi:v853 ...]
[--precision u8 ...] [--operator NAME ...] [--with FILE ...]`. It needs VeriSilicon's SDK (`dovetail sdk install
verisilicon`). `--with` takes what `--json` wrote before: cells that this run does not make anew come from there, so
that parts can run side by side and one operator can be refreshed.

Every operator case at every integer precision on six samples (two from the range, one of all values, one of extremes,
all lowest, all highest). The vendor's results are kept in a folder (`--cache`), because nine parts take about an hour
of processor time; what differs by more than one step is measured again alone, in a process of its own: results that the
vendor library mixed up between graphs of one process are garbage, not ties.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from dovetail.backend.protocols import CompileOptions, Signature
from dovetail.backend.target import Engine
from dovetail.backends.reference import backend as reference
from dovetail.backends.verisilicon.blob import program_message
from dovetail.backends.verisilicon.driver.bench import EngineStep, GraphBench, Measured
from dovetail.backends.verisilicon.driver.session import Settings
from dovetail.backends.verisilicon.emulator.executable import Emulation
from dovetail.backends.verisilicon.lowering.table import lower_graph
from dovetail.backends.verisilicon.parts.named import VSI_PROFILES
from dovetail.backends.verisilicon.parts.part import VsiProfile, part_of
from dovetail.backends.verisilicon.program import Program
from dovetail.errors import CompileError
from dovetail.ir import AnyArray
from dovetail.ir.precision import Precision
from dovetail.sdk import find_verisilicon
from dovetail.sdk.location import fingerprint
from dovetail.testing.agreement import load_on
from dovetail.testing.cases import CASES, QuantizedCase, quantized
from dovetail.testing.probing import QUICK
from zoo.vendor_page import Cell, State, as_markdown, summary

Results = tuple[Mapping[str, AnyArray], ...]
_SUSPICIOUS = 1
"""Larger differences are measured again in a process of their own."""


@cache
def prepared(index: int, precision: Precision) -> QuantizedCase:
    """Return a case at a precision."""
    return quantized(CASES[index], precision)


@cache
def ours(index: int, precision: Precision, target: str) -> tuple[Results, Results]:
    """Return what the reference and the emulator give."""
    found, profile = prepared(index, precision), next(one for one in VSI_PROFILES if one.name == target)
    judge = load_on(reference, found.graph, profile, CompileOptions())
    emulation = Emulation(lower_graph(found.graph, part_of(profile)), Signature.of(found.graph))
    return tuple(tuple(one.run(sample) for sample in found.inputs) for one in (judge, emulation))  # type: ignore[return-value]


def twin(target: VsiProfile) -> str:
    """Return the first target that computes as this one does."""
    return next(one.name for one in VSI_PROFILES if one.generation is target.generation)


@dataclass(frozen=True, slots=True)
class Memory:
    """The vendor's results in a folder, by the SDK's contents, program and samples."""

    folder: Path
    sdk: str
    """Fingerprint of the SDK that the results are of."""

    def path(self, program: Program, found: QuantizedCase, *, alone: bool) -> Path:
        """Return the file of a measurement."""
        message, raw = program_message(program)
        hasher = hashlib.sha256(self.sdk.encode() + json.dumps(message, sort_keys=True).encode() + raw)
        for sample in found.inputs:
            for name in sorted(sample):
                hasher.update(np.ascontiguousarray(sample[name]).tobytes())
        return self.folder / f"{program.sdk_name}-{hasher.hexdigest()[:24]}{'-alone' if alone else ''}.npz"

    def read(self, path: Path) -> Measured | str | None:
        """Return a measurement, the reason of a refusal, or None where there is none."""
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as held:
            if "reason" in held:
                return str(held["reason"])
            steps = tuple(EngineStep(str(a), str(b), Engine(str(c))) for a, b, c in held["steps"].reshape(-1, 3))
            count = int(held["count"])
            results = tuple(
                {key.partition(":")[2]: held[key] for key in held.files if key.startswith(f"{index}:")}
                for index in range(count)
            )
        return Measured(results, steps)

    def write(self, path: Path, found: Measured | str) -> None:
        """Keep a measurement or the reason of a refusal."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if isinstance(found, str):
            np.savez_compressed(path, reason=np.array(found))
            return
        steps = np.array([[step.layer, step.operator, step.engine.value] for step in found.steps], dtype="U120")
        arrays = {f"{i}:{name}": value for i, result in enumerate(found.results) for name, value in result.items()}
        np.savez_compressed(path, steps=steps, count=np.array(len(found.results)), **arrays)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Say what to measure."""

    targets: tuple[VsiProfile, ...]
    precisions: tuple[Precision, ...]
    operators: frozenset[str]
    memory: Memory


def cells(wanted: Wanted) -> Iterator[Cell]:
    """Yield every cell of the table."""
    settings = Settings(find_verisilicon().folder)
    for target in wanted.targets:
        with GraphBench(part_of(target).sdk_name, settings) as bench:
            for index, case in enumerate(CASES):
                for precision in wanted.precisions:
                    if not wanted.operators or wanted.operators & {case.op, case.name}:
                        yield _cell(index, precision, target, (bench, wanted.memory))


def _cell(index: int, precision: Precision, target: VsiProfile, tools: tuple[GraphBench, Memory]) -> Cell:
    case, found = CASES[index], prepared(index, precision)
    blank = Cell(target.name, precision.value, case.op, case.name)
    verdict = target.verdict(found.graph, found.graph.nodes[0], precision)
    try:
        program = lower_graph(found.graph, part_of(target))
    except CompileError as error:
        return replace(
            blank, state=State.REFUSED, reason=error.message.partition("cannot run it: ")[2] or error.message
        )
    measured = _measure(program, found, tools, alone=False)
    if isinstance(measured, str):
        return replace(blank, state=State.VENDOR_REFUSES, reason=measured)
    exact, simulated = ours(index, precision, twin(target))
    if _difference(measured.results, simulated)[1] > _SUSPICIOUS:
        again = _measure(program, found, tools, alone=True)
        measured = measured if isinstance(again, str) else again
    judged = _with(blank, _difference(measured.results, simulated))
    mean, largest = _difference(measured.results, exact)
    state = State.MEASURED if verdict.supported else State.ONLY_VENDOR
    engine = measured.engine.value if measured.engine else "-"
    steps = " ".join(dict.fromkeys(step.engine.value for step in measured.steps))
    return replace(
        judged,
        state=state,
        engine=engine,
        steps=steps,
        reference_mean=mean,
        reference_max=largest,
        reason=verdict.reason,
    )


def _with(cell: Cell, found: tuple[float, int]) -> Cell:
    return replace(cell, npusim_mean=found[0], npusim_max=found[1])


def _measure(
    program: Program, found: QuantizedCase, tools: tuple[GraphBench, Memory], *, alone: bool
) -> Measured | str:
    bench, memory = tools
    path = memory.path(program, found, alone=alone)
    held = memory.read(path)
    if held is not None:
        return held
    outputs = {name: found.graph.types[name] for name in found.graph.outputs}
    result: Measured | str
    try:
        result = bench.measure(program, found.inputs, outputs, fresh=alone)
    except CompileError as error:
        result = error.message
    memory.write(path, result)
    return result


def _difference(one: Sequence[Mapping[str, AnyArray]], other: Sequence[Mapping[str, AnyArray]]) -> tuple[float, int]:
    """Return the mean and the largest difference of stored values, in steps; floats in units in the last place."""
    total, count, largest = 0.0, 0, 0
    for first, second in zip(one, other, strict=True):
        for name, value in first.items():
            steps = _steps(value, second[name])
            total, count = total + float(steps.sum()), count + steps.size
            largest = max(largest, int(steps.max(initial=0)))
    return total / max(count, 1), largest


def _steps(one: AnyArray, other: AnyArray) -> AnyArray:
    if one.dtype.kind != "f":
        return np.abs(one.astype(np.int64) - other.astype(np.int64))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore", over="ignore"):
        unit = np.spacing(np.maximum(np.abs(other), np.finfo(other.dtype).tiny))
        apart = np.rint(np.abs(one.astype(np.float64) - other) / unit)
    return np.where(same, 0, np.nan_to_num(apart, nan=2.0**31, posinf=2.0**31)).astype(np.int64)


def completed(found: Sequence[Cell], earlier: Sequence[Path]) -> list[Cell]:
    """Return cells with those of earlier runs that are not among them, in the order of the page."""
    held = {_key(cell): cell for cell in found}
    for path in earlier:
        for fields in json.loads(path.read_text()):
            cell = Cell.from_document(fields)
            held.setdefault(_key(cell), cell)
    targets = {target.name: place for place, target in enumerate(VSI_PROFILES)}
    cases = {case.name: place for place, case in enumerate(CASES)}
    precisions = {precision.value: place for place, precision in enumerate(QUICK)}
    return sorted(
        (cell for cell in held.values() if cell.case in cases),
        key=lambda cell: (targets[cell.target], cases[cell.case], precisions[cell.precision]),
    )


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.target, cell.precision, cell.case


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", nargs="*", default=[])
    parser.add_argument("--precision", nargs="*", default=[])
    parser.add_argument("--operator", nargs="*", default=[])
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "dovetail" / "vendor-table")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--with", dest="earlier", nargs="*", type=Path, default=[])
    parser.add_argument("--only-earlier", action="store_true", help="measure nothing, write what --with holds")
    given = parser.parse_args()
    installed = find_verisilicon()
    if not installed.usable:
        sys.exit(f"{installed.reason}: run 'dovetail sdk install verisilicon'")
    wanted = Wanted(
        tuple(one for one in VSI_PROFILES if not given.target or one.name in given.target),
        tuple(one for one in QUICK if not given.precision or one.value in given.precision),
        frozenset(given.operator),
        Memory(given.cache, fingerprint(installed.folder.sdk, installed.folder.timvx)),
    )
    found: list[Cell] = []
    for cell in () if given.only_earlier else cells(wanted):
        found.append(cell)
        if cell.differs:
            print(f"{cell.target} {cell.precision} {cell.case}: {cell.npusim_max}")
    found = completed(found, given.earlier)
    print("\n".join(summary(found)))
    if given.json:
        given.json.write_text(json.dumps([cell.document() for cell in found], indent=0))
    if given.markdown:
        given.markdown.write_text(as_markdown(found))


if __name__ == "__main__":
    main()
