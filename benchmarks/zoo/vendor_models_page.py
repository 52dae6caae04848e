"""The page of `vendor_models.py`: whole models on the vendor's simulator, outputs and inner tensors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from textwrap import shorten
from typing import Any

from zoo.collection import NETWORKS
from zoo.table import markdown, number

_LONGEST_REASON = 200


class Outcome(Enum):
    """Say what became of a model at a precision on a part."""

    EQUAL = "equal"
    DIFFERS = "differs"
    REFUSED = "all on the CPU"
    """The plan says beforehand that the part takes nothing of it."""
    LATE = "refused late"
    """The plan places on the part what lowering then refuses."""
    VENDOR = "vendor refuses"
    """The vendor's compiler or simulator refuses it, or dies of it."""
    BROKEN = "broken"
    """Our own code stops with an error that is none of its own."""
    STOPPED = "stopped"
    """It took longer than a cell may."""
    LOWERED = "lowered only"
    """Everything that the plan places on the part is lowered; the simulator was not run yet."""


@dataclass(frozen=True, slots=True)
class Row:
    """Hold what became of one cell; `operators` are those of the NPU's partitions that are computed as one."""

    model: str
    target: str
    precision: str
    outcome: Outcome
    on_npu: int = 0
    on_cpu: int = 0
    partitions: int = 0
    samples: int = 0
    elements: int = 0
    differing: int = 0
    largest: int = 0
    operators: int = 0
    judged: int = 0
    """Operators whose results were read, each with those before it whose results were not."""
    equal_inside: int = 0
    unread: int = 0
    """Operators of which nothing was read."""
    ways: str = ""
    """How inner tensors were read, and of how many partitions each way."""
    first: str = ""
    """The first operator that deviates from equal inputs."""
    reason: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells it from all others."""
        return self.model, self.target, self.precision

    def to_json(self) -> str:
        """Return the row as a line of a log."""
        return json.dumps({**asdict(self), "outcome": self.outcome.value})

    @classmethod
    def from_json(cls, line: str) -> Row:
        """Return the row of a line."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**{**fields, "outcome": Outcome(fields["outcome"])})

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        ran = self.outcome in (Outcome.EQUAL, Outcome.DIFFERS)
        outputs = f"{self.elements - self.differing} of {self.elements}" if ran else self.outcome.value
        largest = str(self.largest) if ran else "-"
        inside = f"{self.equal_inside} of {self.judged}" if self.judged else "-"
        if self.unread:
            inside += f", {self.unread} not read"
        told = self.first or shorten(self.reason, _LONGEST_REASON)
        nodes = f"{self.on_npu} / {self.on_cpu}"
        return (
            self.model,
            self.target.removeprefix("vsi:"),
            self.precision,
            nodes,
            outputs,
            largest,
            inside if ran else "-",
            self.ways or "-",
            told or "-",
            number(self.seconds, 0),
        )


HEADINGS = ("model", "part", "precision", "NPU / CPU", "outputs equal", "largest", "inner equal", "read by")
_HEADINGS = (*HEADINGS, "first that deviates, or why not", "s")

_PAGE = """# Whole models on the vendor's simulator

Made by `python benchmarks/vendor_models.py --write docs/reference/vendor_models.md --log LOG` with VeriSilicon's SDK
6.57.1; do not edit. [Single operators](vendor.md) and [random ones](vendor_wild.md) have pages of their own.

Every network of the collection, quantised at a precision and placed on a part; what the part's verdict refuses is on
the CPU by plan (`NPU / CPU` counts nodes of the quantised network). `outputs equal` counts the elements of everything
that leaves the NPU or the model, as it is deployed (the vendor's binary on the vendor's instruction-level simulator),
over all samples: {samples} of the model's own data, each side on its own values. `largest` is the largest difference
of what leaves the NPU, in steps. `inner equal` counts operators that give every element of their results from equal
inputs, on one sample; what the compiler computes as one, such as a convolution with its clamp and a sum, is one
operator, and so is what cannot be told apart without changing the binary. They are read by taps where these leave the
outputs as they are deployed, else by compiling parts of the network (cuts), at most {cuts} in a partition; an operator
of which nothing was read after that, or that lies behind the first that deviates, is `not read`. `lowered only` are
cells that the simulator has not run yet: all that the plan places on the part is lowered. Seconds are of the whole cell
on a shared machine. A log may hold cells of several commits; the commit below is the one that wrote the page.

## Summary

{summary}

## Cells

{table}

{rest}
## Why cells differ or are refused

{causes}

## Found on the way

Both in the vendor's compiler, minimised to a few operators, in the graph and as a binary network:

- An output that only reshapes an input of the graph comes out as garbage where a convolution reads it too (`vsi:v853`,
  `vsi:a311d`).
- A convolution of affine signed bytes that is joined with a sum gives garbage where its input lies in memory, as an
  input or output of the graph, and the sum inside (`vsi:v853`, `vsi:t527`; `vsi:a311d` joins nothing). Two convolutions
  of the graph's input, their sum and a Transpose show it. No such tensor is tapped; the lowering does not avoid it yet.

```text
{facts}
```
"""

_UNBIASED = (
    "the vendor's compiler cannot write a binary network with a matrix product that has a scale for each channel and "
    "no bias, in one operator already; with a bias it can, and with one scale. The verdict accepts it"
)
_TIE = (
    "one element of a depthwise convolution in a shader is a step off, from equal inputs; every other operator is "
    "equal on that sample. Which rounding or order of the shader's sum it is was not looked into"
)
CAUSES: Mapping[tuple[str, str, str], str] = {
    ("conv_fc_mnist", "vsi:a311d", "i8pc"): _UNBIASED,
    ("conv_fc_mnist", "vsi:imx8mp", "i8pc"): _UNBIASED,
    ("vww_96_float", "vsi:a311d", "i8pc"): _TIE,
    ("vww_96_float", "vsi:imx8mp", "i8pc"): _TIE,
    ("mobilenet_v1_0.25_128_quant", "vsi:a311d", "i8pc"): _TIE,
    ("resnet8_float", "vsi:v853", "u8"): (
        "a sum of unsigned bytes inside the graph is a convolution with weights of 255 steps there, of 127 in our "
        "simulation. With 255 every element of it is equal; what decides is not known"
    ),
    ("resnet8_float", "vsi:v853", "i8pc"): (
        "of two convolutions before a sum the compiler joins the one whose kernel is larger than 1x1, and of two alike "
        "the one on the shorter way, whatever the order of the nodes (measured on 14 small graphs); our lowering joins "
        "the earlier. With the other one every element of the sum is equal"
    ),
}
"""Of cells that differ or that the vendor refuses, as far as somebody looked into them."""


def as_page(rows: Sequence[Row], left: Sequence[str], facts: Sequence[str], most_cuts: int) -> str:
    """Return the page; `left` says what was not run and why."""
    samples = max((row.samples for row in rows if row.outcome is not Outcome.LOWERED), default=0)
    rest = "## Not run\n\n" + "\n".join(f"- {item}" for item in left) + "\n" if left else ""
    newest = {row.key: row for row in rows}
    rows = sorted(newest.values(), key=lambda row: _place(row.model))
    return _PAGE.format(
        samples=samples,
        cuts=most_cuts,
        summary=markdown(*_summary(rows)),
        table=markdown(_HEADINGS, [row.cells for row in rows]),
        rest=rest,
        causes="\n".join(_causes(rows)) or "Nothing differs.",
        facts="\n".join(facts),
    )


def _place(model: str) -> int:
    """Return where a network stands among all; the example comes first."""
    return next((at for at, file in enumerate(NETWORKS) if Path(file).stem == model), -1)


def _causes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each cell that deviates, or that the vendor refuses."""
    for row in rows:
        if row.outcome in (Outcome.DIFFERS, Outcome.VENDOR) or row.first:
            yield f"- {row.model}, {row.target}, {row.precision}: {CAUSES.get(row.key, 'not looked into yet')}."


def _summary(rows: Sequence[Row]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    heads = ("part", "precision", "cells", *(outcome.value for outcome in Outcome), "elements equal", "inner equal")
    return heads, list(_summary_rows(rows))


def _summary_rows(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.target, row.precision), []).append(row)
    for (target, precision), found in sorted(groups.items()):
        counts: Mapping[Outcome, int] = Counter(row.outcome for row in found)
        elements, wrong = (sum(getattr(row, name) for row in found) for name in ("elements", "differing"))
        judged, equal = (sum(getattr(row, name) for row in found) for name in ("judged", "equal_inside"))
        shown = (str(counts[outcome]) for outcome in Outcome)
        name = target.removeprefix("vsi:")
        yield name, precision, str(len(found)), *shown, f"{elements - wrong} of {elements}", f"{equal} of {judged}"
