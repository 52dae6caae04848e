"""The page of `vendor_table.py`: cells, their summary, and the causes of the differences that are left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class State(Enum):
    """Say what became of a cell."""

    MEASURED = "measured"
    REFUSED = "refused"
    """There is no lowering, or the case has attributes that the vendor's operator lacks."""
    VENDOR_REFUSES = "vendor refuses"
    ONLY_VENDOR = "only vendor"
    """The vendor's compiler takes it, the profile does not."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold one case at one precision on one part; differences are in steps of the stored type."""

    target: str
    precision: str
    op: str
    case: str
    state: State = State.MEASURED
    engine: str = ""
    steps: str = ""
    npusim_mean: float = 0.0
    npusim_max: int = 0
    reference_mean: float = 0.0
    reference_max: int = 0
    reason: str = ""

    def document(self) -> dict[str, object]:
        """Return the cell as JSON holds it."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {**fields, "state": self.state.value, "cause": cause(self) if self.differs else ""}

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Cell:
        """Return a cell that was written as JSON."""
        known = {name: fields[name] for name in cls.__slots__}
        return cls(**{**known, "state": State(fields["state"])})

    @property
    def differs(self) -> bool:
        """Tell whether the emulator's result is not the vendor's."""
        return self.state in (State.MEASURED, State.ONLY_VENDOR) and self.npusim_max > 0


class UnexplainedError(Exception):
    """Say that a cell differs from the vendor's for no known reason."""


_STREAM = ("vsi:a733",)

_FREE: frozenset[str] = frozenset()
_BYTES = frozenset({"u8", "i8", "i8pc"})
_TENSOR = ("vsi:t527",)
_LINES = "measured: the reciprocal is a table of 16 straight lines an octave (modelled); last bits of it are not known"
_FEW_BITS = "measured on all 256 values: the part's own function has about 14 bits; 3 to 5 results fall beyond a tie"
CAUSES: tuple[tuple[frozenset[str], frozenset[str], tuple[str, ...], str], ...] = (
    (
        frozenset({"ReduceL2"}),
        _BYTES | {"i8dfp"},
        _STREAM,
        "measured on 19114 rows of 1 to 16 bytes: up to 0.8 of a step too small, never too large; whether the square or"
        " the root loses it is not known",
    ),
    (
        frozenset({"ReduceL2"}),
        frozenset({"i16"}),
        (*_STREAM, *_TENSOR),
        "vendor defect: lengths of 16 bits are up to 212 steps off; the profile refuses them",
    ),
    (frozenset({"Slice"}), _FREE, _STREAM, "vendor defect: a slice with a negative step gives other elements"),
    (
        frozenset({"LayerNormalization"}),
        frozenset({"i8dfp"}),
        ("vsi:a311d", "vsi:imx8mp", "vsi:v853", "vsi:s905d3", "vsi:rv1126", "vsi:rk1808", "vsi:t527", "vsi:stm32mp2"),
        "vendor defect: the kernel gives 0 for bytes in dynamic fixed point",
    ),
    (
        frozenset({"DequantizeLinear"}),
        _FREE,
        _STREAM,
        "measured: 332 of 3456 floats differ by one unit in the last place; neither a fused, a cut nor a separate"
        " product with the zero point gives them",
    ),
    (frozenset({"Div", "Softmax"}), _FREE, _STREAM, _LINES),
    (
        frozenset({"LogSoftmax"}),
        frozenset({"i16"}),
        _STREAM,
        "measured: 87 of 180 values are up to 2 steps off, rows as a whole: the logarithm of the sum; its table is not"
        " known",
    ),
    (
        frozenset({"LayerNormalization"}),
        _FREE,
        _STREAM,
        "measured on rows of 16 bits: each is 0.01 to 0.5 % too large as a whole, and otherwise right within 0.6 of a"
        " step: the root's reciprocal; its table is not known",
    ),
    (frozenset({"Log", "Reciprocal"}), _BYTES, _STREAM, _FEW_BITS),
    (
        frozenset({"HardSigmoid", "Exp"}),
        _BYTES,
        _STREAM,
        "measured on all 256 values at 46 scales: something is rounded to about 16 bits, which moves results across a"
        " tie; its place is not known",
    ),
    (
        frozenset({"LpNormalization"}),
        frozenset({"i16"}),
        _STREAM,
        "measured on 114688 values: with squares added in turn in float32 33 are beyond a tie, by less than it holds;"
        " none of 224 orders and roundings of the steps gives all",
    ),
    (
        frozenset({"Gelu"}),
        frozenset({"i16"}),
        _STREAM,
        "measured on all 65536 values: 32 differ by one step; which of the table's entries do is not known",
    ),
    (
        frozenset({"Conv.depthwise"}),
        frozenset({"i16"}),
        ("vsi:s905d3",),
        "measured: the shader adds three exact sums, one a row of the kernel, in float32 (4 tensors of random values,"
        " equal); not modelled",
    ),
)
"""Operators or cases, precisions (all where empty), parts (likewise), and why they differ; the first that fits.

Every entry names operators: a cell that nobody looked into must not find a cause.
"""


def cause(cell: Cell) -> str:
    """Return why a cell differs; raise UnexplainedError where no cause is known."""
    for names, precisions, parts, text in CAUSES:
        if not names & {cell.op, cell.case}:
            continue
        if (not precisions or cell.precision in precisions) and (not parts or cell.target in parts):
            return text
    found = f"npusim by {cell.npusim_max}"
    raise UnexplainedError(f"{cell.target} {cell.precision} {cell.case}: {found} steps; find out why, or model it")


def summary(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a line for each part and precision, and one for all."""
    names = ("target", "prec.", "cells", "npusim = 0", "reference = 0", "refused", "only vendor")
    yield f"{names[0]:14} {names[1]:6} {names[2]:>5} {names[3]:>11} {names[4]:>13} {names[5]:>8} {names[6]:>12}"
    keys = sorted({(cell.target, cell.precision) for cell in cells})
    for key in [*keys, ("all", "")]:
        mine = [cell for cell in cells if key[0] == "all" or (cell.target, cell.precision) == key]
        done = [cell for cell in mine if cell.state is State.MEASURED]
        lost = sum(cell.state in (State.REFUSED, State.VENDOR_REFUSES) for cell in mine)
        only = sum(cell.state is State.ONLY_VENDOR for cell in mine)
        shares = [
            f"{sum(value == 0 for value in found)} {sum(value == 0 for value in found) / max(len(done), 1):6.1%}"
            for found in ([cell.npusim_max for cell in done], [cell.reference_max for cell in done])
        ]
        yield f"{key[0]:14} {key[1]:6} {len(done):5} {shares[0]:>11} {shares[1]:>13} {lost:8} {only:12}"


_INTRODUCTION = """# Against the vendor's simulator

Made by `python benchmarks/vendor_table.py --markdown docs/reference/vendor.md` with VeriSilicon's SDK 6.57.1.
[Whole models](vendor_models.md) have a page of their own.

Every operator case of `dovetail.testing.cases` (operators with several kinds of attributes have several cases) at
every integer precision, on six samples, on the vendor's instruction-level simulator of nine parts, against
`npusim --fidelity exact`. A difference is counted in steps of the stored type (LSB). `npusim` emulates the lowered
program by what was measured of the engines (`src/dovetail/backends/verisilicon/emulator`): the tensor processor's
tables (1024 knots, floats of 21 bits), its copies, averages as convolutions with byte weights, sums of bytes as the
adder behind the array or a convolution makes them (equal on all 65536 pairs), the shaders' float32 operations in their
order, multipliers that are float32 quotients, cut to 16 bits on v7 parts. `reference` knows nothing of the silicon: its
column says how far exact integers with the part's rounding carry.

A cause below is `measured` where a run was made to see just that, a `vendor defect` where the vendor's own result is
not the operator's and was seen again in a process of its own. Every cell that differs has a cause: the page is not made
while one has none.
"""


def as_markdown(cells: Sequence[Cell]) -> str:
    """Return the page."""
    parts = list(dict.fromkeys(cell.target for cell in cells))
    lines = [_INTRODUCTION, "## Cells without any difference", "", "```text", *summary(cells), "```", ""]
    lines += [
        "## What differs, and why",
        "",
        "| precision | case | parts | largest | mean | cause |",
        "|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        if cell.differs:
            rows.setdefault((cell.precision, cell.case, cause(cell)), []).append(cell)
    for (precision, case, why), found in sorted(rows.items()):
        names = ", ".join(cell.target.removeprefix("vsi:") for cell in found)
        largest = max(cell.npusim_max for cell in found)
        mean = max(cell.npusim_mean for cell in found)
        lines.append(f"| {precision} | {case} | {names} | {largest} | {mean:.4f} | {why} |")
    for precision in dict.fromkeys(cell.precision for cell in cells):
        lines += ["", f"## {precision}", "", *_engines([c for c in cells if c.precision == precision], parts)]
    return "\n".join(lines) + "\n"


def _engines(cells: Sequence[Cell], parts: Sequence[str]) -> Iterator[str]:
    """Yield the table of one precision: the engine, and the largest differences where there are any."""
    yield "The engine of the operator; a number is the largest difference of npusim; `-`: refused; `*`: only the"
    yield "vendor's compiler takes it, the profile does not."
    yield ""
    yield "| case | " + " | ".join(part.removeprefix("vsi:") for part in parts) + " |"
    yield "|---|" + "---|" * len(parts)
    for case in dict.fromkeys(cell.case for cell in cells):
        mine = {cell.target: cell for cell in cells if cell.case == case}
        yield f"| {case} | " + " | ".join(_text(mine.get(part)) for part in parts) + " |"


def _text(cell: Cell | None) -> str:
    if cell is None or cell.state in (State.REFUSED, State.VENDOR_REFUSES):
        return "-"
    mark = "" if cell.state is State.MEASURED else "*"
    return cell.engine + mark + (f" {cell.npusim_max}" if cell.differs else "")
