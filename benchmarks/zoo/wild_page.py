"""The page of `vendor_wild.py`: shares with their intervals, and what was wrong."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten

from scipy.stats import binomtest

_TOLD = Path(__file__).parent / "wild_causes.toml"
"""Causes of single cases."""
_FREE: frozenset[str] = frozenset()
_LONGEST_REASON = 160
_FIXED = frozenset({"i16", "i8dfp"})
_TABLES = frozenset(
    {"Atan", "Celu", "Clip", "Elu", "Erf", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg"}
) | {"Selu", "Softsign", "Tan", "Tanh"}
_FOLLOWING = frozenset({"Add", "LeakyRelu", "Sub"})
CAUSES: tuple[tuple[frozenset[str], frozenset[str], frozenset[str], str], ...] = (
    (
        frozenset({"Gelu"}),
        frozenset({"i16"}),
        frozenset({"a311d", "imx8mp", "rk1808", "rv1126", "s905d3", "stm32mp2", "t527", "v853"}),
        "Gelu by tanh in a shader was that of erf: modelled after seed 1326",
    ),
    (
        frozenset({"Abs", "Relu"}),
        _FIXED,
        _FREE,
        "vendor defect: beyond 65,536 the tensor processor turns signs around, and makes garbage of more than 48 bits"
        " behind the point: other operators, and at most 48 bits, after seed 1427",
    ),
    (
        frozenset({"Mul"}),
        _FIXED,
        frozenset({"a311d", "imx8mp", "rk1808", "rv1126", "s905d3", "stm32mp2", "t527", "v853"}),
        "squares end at 65,536, and a single number is folded into the weights before it: modelled and avoided after"
        " seed 1427, but for a single value",
    ),
    (
        frozenset({"Tan"}),
        _FREE,
        frozenset({"a733"}),
        "bytes have a table of ovxlib's with knots: modelled after seed 11290601",
    ),
    (
        frozenset({"Sigmoid"}),
        _FREE,
        frozenset({"a733"}),
        "tables of bytes of the stream processor: one of 1,000 entries is rounded otherwise; not known",
    ),
    (
        frozenset({"HardSigmoid"}),
        frozenset({"i16"}),
        frozenset({"a733"}),
        "not rounded to 21 bits: modelled after seed 1326",
    ),
    (
        frozenset({"Sigmoid"}),
        _FREE,
        _FREE,
        "the vendor's compiler makes one table of a sigmoid that gates its own input, and leaves a function of a single"
        " value to a shader: both modelled after the first look",
    ),
    (
        frozenset({"Max", "Min"}),
        _FREE,
        _FREE,
        "vendor defect: operands whose steps are below 1/512 of the output's: stored as the output first, "
        "after the second look",
    ),
    (
        frozenset({"Resize"}),
        _FREE,
        _FREE,
        "last bits of linear weights: modelled in fixed point after seed 717, of affine bytes after seed 1326, of every"
        " factor after seed 11290301",
    ),
    (
        _TABLES,
        _FIXED,
        _FREE,
        "steps in fixed point below 2^-15, of which ovxlib's tables make garbage: they get coarser ones since seed 616,"
        " and functions that the driver has tables of are a shader's there. Last bits of Elu, Gelu, Log: not known",
    ),
    (
        frozenset({"Div", "Softmax", "LayerNormalization", "LogSoftmax"}),
        _FREE,
        frozenset({"a733"}),
        "tables of the stream processor: modelled after seed 717 but for quotients of bytes and LogSoftmax, of which"
        " last bits are not known",
    ),
    (
        frozenset({"Softplus", "ReduceMean", "GlobalAveragePool", "LayerNormalization"}),
        _FREE,
        _FREE,
        "modelled after seed 616: means of rows of three axes are convolutions, planes of three axes are given as rows,"
        " LayerNormalization of bytes adds epsilon to steps, e^x above the largest float32 is infinite",
    ),
    (
        frozenset({"GroupNormalization", "InstanceNormalization"}),
        _FREE,
        _FREE,
        "vendor defect: channels that take the scale of others, and equal bytes that come out as the least value: "
        "refused after seed 1023; float32 in the kernels' order of operations: modelled after it",
    ),
    (
        frozenset({"AveragePool"}),
        _FREE,
        _FREE,
        "padding that is counted makes it the array's, 3 x 3 bytes are rounded down, single values end a compiler: all"
        " mended after seed 1023",
    ),
    (
        frozenset({"MatMul"}),
        frozenset({"i16"}),
        frozenset({"a311d", "imx8mp", "rk1808", "rv1126", "s905d3", "stm32mp2", "t527", "v853"}),
        "products of two tensors of 16 bits are added in float32, one term after another: modelled after seed 1023",
    ),
    (
        frozenset({"GlobalMaxPool", "ReduceMax"}),
        frozenset({"u8", "i8", "i8pc"}),
        _FREE,
        "vendor defect: steps below 1e-7 are not requantised in its own kernels: requantised apart after seed 1124",
    ),
    (
        frozenset({"ReduceL2"}),
        _FREE,
        frozenset({"a733"}),
        "vendor defect: squares in half precision: refused after seed 922",
    ),
    (
        frozenset({"LRN"}),
        _FREE,
        _FREE,
        "a sum of squares above 57,344, the last knot of the tensor processor's table: what is behind it is not known;"
        " a bias in dynamic fixed point is refused after seed 616",
    ),
    (
        frozenset({"ReduceProd"}),
        _FREE,
        _FREE,
        "vendor defect: steps below what its kernel computes with: more than 16 factors are refused after seed 616",
    ),
    (
        frozenset({"Cos", "Sin"}),
        _FREE,
        _FREE,
        "last bits of bytes as float32 has them: modelled after seed 11290601",
    ),
    (
        frozenset({"Acosh", "Atanh"}),
        frozenset({"i16"}),
        _FREE,
        "last bits of a shader's float32: modelled after seed 11290601 but for one value in 6,000 and in 20,000",
    ),
    (
        frozenset({"Mod"}),
        frozenset({"u8", "i8", "i8pc"}),
        _FREE,
        "remainders in float32: modelled after seed 11290601",
    ),
    (
        frozenset({"CumSum", "PRelu", "Sign"}),
        frozenset({"u8", "i8", "i8pc"}),
        _FREE,
        "vendor defect: its own kernels take bytes with steps below 1e-8 for plain integers: multiplied before since"
        " seed 11290601",
    ),
    (
        frozenset({"Where"}),
        _FREE,
        _FREE,
        "vendor defect: a shader's conversion of bytes to steps of more than about 200: in several since seed 616",
    ),
    (
        frozenset({"MatMul"}),
        frozenset({"u8", "i8", "i8pc"}),
        _FREE,
        "vendor defect: steps below 1e-9 in a shader",
    ),
    (
        frozenset({"Mul"}),
        _FREE,
        _FREE,
        "a product of bytes with themselves is a table of squares: modelled after the first look",
    ),
    (
        frozenset({"Softplus"}),
        _FREE,
        _FREE,
        "e^x above the largest float32 is infinite, and the result the largest stored value: modelled after the first"
        " look",
    ),
    (
        frozenset({"CumSum"}),
        _FREE,
        _FREE,
        "vendor defect: a reverse sum of bytes is garbage: refused after the first look",
    ),
    (
        frozenset({"Concat", "ScatterND"}),
        _FREE,
        _FREE,
        "vendor defect: an operand whose steps are less than about 1/500 of the output's arrives 128 steps too low:"
        " stored in several steps that stay in memory after seed 1427",
    ),
)
"""Operators of the smallest case, precisions and parts (all where empty), and why they differ; the first that fits."""


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one cell."""

    kind: str
    target: str
    seed: int
    index: int
    precision: str
    operators: tuple[str, ...]
    outcome: str
    nodes: int
    """Nodes that the part takes."""
    elements: int
    differing: int
    largest: int
    reason: str
    seconds: float

    @property
    def name(self) -> str:
        """Return what tells it from all others."""
        return f"{self.kind}-{self.target.removeprefix('vsi:')}-{self.seed}-{self.index}"

    @property
    def is_accepted(self) -> bool:
        """Tell whether the verdict accepts anything of it."""
        return self.outcome != "refused"

    @property
    def is_wrong(self) -> bool:
        """Tell whether the part did not keep its word."""
        return self.outcome not in ("equal", "refused")

    @property
    def text(self) -> str:
        """Return what is wrong."""
        if self.differing:
            return f"{self.differing} of {self.elements} by up to {self.largest}"
        return shorten(f"{self.outcome}: {self.reason}", _LONGEST_REASON).replace("|", "/")

    def to_json(self) -> str:
        """Return the row as a line of a log."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Row:
        """Return the row of a line."""
        fields = json.loads(line)
        return cls(**{**fields, "operators": tuple(fields["operators"])})


def cause(operators: Sequence[str], precision: str, target: str) -> str:
    """Return why a smallest case differs, or that it is not known."""
    if len(operators) > 1 and precision != "i16" and _FOLLOWING.intersection(operators):
        return (
            "each operator of the smallest case is equal alone: the vendor's compiler joins them; sums, slopes and "
            "biases behind products were modelled after the second look"
        )
    for names, precisions, parts, text in CAUSES:
        fits = names.intersection(operators) and (not precisions or precision in precisions)
        if fits and (not parts or target.removeprefix("vsi:") in parts):
            return text
    return "not known"


def share(rows: Sequence[Row]) -> str:
    """Return how many accepted rows are equal, and the exact 95 % interval of their share."""
    accepted = [item for item in rows if item.is_accepted]
    if not accepted:
        return "-"
    equal = sum(not item.is_wrong for item in accepted)
    interval = binomtest(equal, len(accepted)).proportion_ci(0.95, method="exact")
    return f"{equal} of {len(accepted)}, {equal / len(accepted):.1%} ({interval.low:.1%} to {interval.high:.1%})"


_INTRODUCTION = """# Random operators and graphs against the vendor's simulator

Made by `python benchmarks/vendor_wild.py --write docs/reference/vendor_wild.md --logs LABEL=FILE ...` from logs of
`vendor_wild.py --operators N --graphs N --seed S` with VeriSilicon's SDK 6.57.1.

`dovetail.testing.wild` draws single operators and graphs of 4 to 30 nodes with shapes, attributes, weights and ranges
that nobody picked; a merge is an operator of two tensors with what makes either of them and reads the result, a chain
operators that only move values up to an output. A case is quantised for a part at one of five integer precisions; what
the part's verdict accepts is lowered, compiled and run by the vendor's simulator and by `npusim --fidelity exact`, on
three samples. What differs is run again in a process of its own. A case is equal where every element of every output
is; a difference is counted in steps of the stored type. Shares are of what the verdict accepts, with their exact 95 %
interval (Clopper and Pearson).

A look at a seed that nothing had been mended for is evidence; the same cells after mending are not, and are not shown.
"""


def as_markdown(looks: Mapping[str, Sequence[Row]], smallest: Mapping[str, Sequence[str]], page: str = "") -> str:
    """Return the page of some labelled runs; `smallest` has the operators of the smallest case of a row.

    Runs that `page` shows and whose logs are not there stay as they are, in their places.
    """
    made = {label: "\n".join([f"## {label}", "", *_look(rows, smallest)]).rstrip() for label, rows in looks.items()}
    sections = {text.partition("\n")[0]: f"## {text}".rstrip() for text in f"\n{page}".split("\n## ")[1:]}
    return "\n\n".join([_INTRODUCTION.rstrip(), *{**sections, **made}.values()]) + "\n"


def _look(rows: Sequence[Row], smallest: Mapping[str, Sequence[str]]) -> Iterator[str]:
    seeds = ", ".join(str(seed) for seed in sorted({item.seed for item in rows}))
    yield f"Seeds: {seeds}. {len(rows)} cases drawn, {sum(not item.is_accepted for item in rows)} refused beforehand."
    yield ""
    yield "| | equal | beyond one step | refused late | vendor refuses or dies | broken |"
    yield "|---|---|---|---|---|---|"
    for kind in ("operator", "graph", "mixture", "trio", "merge", "chain"):
        mine = [item for item in rows if item.kind == kind]
        if not mine:
            continue
        counts = (sum(item.outcome == name for item in mine) for name in ("refused late", "vendor refuses", "broken"))
        far = sum(item.largest > 1 for item in mine)
        yield f"| {kind}s | {share(mine)} | {far} | {' | '.join(map(str, counts))} |"
    yield ""
    yield from _shares(rows, "part", lambda item: item.target.removeprefix("vsi:"))
    yield from _shares(rows, "precision", lambda item: item.precision)
    yield from _operators(rows)
    wrong = [item for item in rows if item.is_wrong]
    told = tomllib.loads(_TOLD.read_text(encoding="utf-8"))
    if wrong:
        yield "| case | precision | nodes | what is wrong | smallest case | cause |"
        yield "|---|---|---|---|---|---|"
    for item in wrong:
        found = smallest.get(item.name, item.operators if item.kind == "operator" else ())
        why = told.get(item.name) or cause(found, item.precision, item.target)
        yield f"| {item.name} | {item.precision} | {item.nodes} | {item.text} | {' '.join(found) or '-'} | {why} |"


def _shares(rows: Sequence[Row], title: str, key: Callable[[Row], str]) -> Iterator[str]:
    kinds = [
        kind for kind in ("operator", "graph", "trio", "merge", "chain") if any(item.kind == kind for item in rows)
    ]
    yield f"| {title} | {' | '.join(f'{kind}s' for kind in kinds)} |"
    yield f"|---|{'---|' * len(kinds)}"
    for value in sorted({key(item) for item in rows}):
        mine = [item for item in rows if key(item) == value]
        both = (share([item for item in mine if item.kind == kind]) for kind in kinds)
        yield f"| {value} | {' | '.join(both)} |"
    yield ""


def _operators(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the operators with something wrong, and the names of the others."""
    single = [item for item in rows if item.kind == "operator" and item.is_accepted]
    if not single:
        return
    wrong = {item.operators[0] for item in single if item.is_wrong}
    if wrong:
        yield "| operator | equal |"
        yield "|---|---|"
    for op in sorted(wrong):
        yield f"| {op} | {share([item for item in single if item.operators[0] == op])} |"
    sound = sorted({item.operators[0] for item in single} - wrong)
    counts = (f"{op} {sum(item.operators[0] == op for item in single)}" for op in sound)
    yield ""
    yield f"Always equal: {', '.join(counts)}."
    yield ""
