"""Draw the README's picture from a real run: tune the digit detector and show where each unit went.

python docs/make_picture.py            # writes docs/images/digits.svg
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import dovetail
from dovetail.compare import load_metric
from dovetail.data import split_samples
from dovetail.plan import find_units
from dovetail.search import TuneResult, parse_goal

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples" / "digits"
PICTURE = ROOT / "docs" / "images" / "digits.svg"

LOW, RAISED, INK, PALE = "#2f7f86", "#e0a030", "#22303a", "#dfe7ea"
COLUMNS, CELL, GAP = 12, 62, 6


def tuned() -> tuple[dovetail.Graph, TuneResult]:
    """Return the digit detector and what tuning it gives."""
    graph = dovetail.normalize(dovetail.load_model(DIGITS / "digits.onnx"))
    specs = dovetail.specs_of(graph)
    calibration = dovetail.calibrate(graph, dovetail.open_samples(DIGITS / "calib.npz", specs))
    samples = dovetail.open_samples(DIGITS / "eval.npz", specs)
    request = dovetail.TuneRequest(
        graph=graph,
        calibration=calibration,
        samples=samples,
        splits=split_samples(samples),
        metric=load_metric(f"{DIGITS / 'metric.py'}:score"),
        goal=parse_goal("1%"),
        low=dovetail.parse_placement("vsi:v853@i8pc"),
        ladder=(dovetail.parse_placement("vsi:v853@i16"),),
    )
    return graph, dovetail.tune(request)


def draw(graph: dovetail.Graph, result: TuneResult) -> str:
    """Return the picture as SVG."""
    raised = {unit.unit for unit in result.culprits}
    units = list(find_units(graph).items)
    rows = -(-len(units) // COLUMNS)
    width, top = COLUMNS * (CELL + GAP) + 40, 150
    height = top + rows * (34 + GAP) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" rx="10" fill="white"/>',
    ]
    scores = [
        ("float", result.holdout.float_score, INK),
        ("every layer in 8 bits", result.holdout.low, LOW),
        (f"{len(raised)} of {len(units)} units in 16 bits", result.holdout.tuned_exact or 0.0, RAISED),
    ]
    for index, (name, score, colour) in enumerate(scores):
        y = 24 + index * 36
        parts.append(f'<text x="20" y="{y + 16}" font-size="14" fill="{INK}">{escape(name)}</text>')
        parts.append(f'<rect x="220" y="{y}" width="420" height="22" rx="4" fill="{PALE}"/>')
        parts.append(f'<rect x="220" y="{y}" width="{max(420 * score, 1):.0f}" height="22" rx="4" fill="{colour}"/>')
        parts.append(f'<text x="652" y="{y + 16}" font-size="14" fill="{INK}">{score:.3f}</text>')
    for index, unit in enumerate(units):
        x = 20 + (index % COLUMNS) * (CELL + GAP)
        y = top + (index // COLUMNS) * (34 + GAP)
        colour = RAISED if unit.name in raised else LOW
        label = unit.name if len(unit.name) <= 10 else unit.name[:9] + "\u2026"
        parts.append(f'<rect x="{x}" y="{y}" width="{CELL}" height="34" rx="5" fill="{colour}"/>')
        parts.append(
            f'<text x="{x + CELL / 2}" y="{y + 21}" font-size="9.5" fill="white" text-anchor="middle">'
            f"{escape(label)}</text>"
        )
    note = f"digit detector on {result.low.target}: score on {result.holdout.samples} held-out images, exact simulation"
    parts.append(f'<text x="20" y="{height - 20}" font-size="12" fill="{INK}">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(*tuned()), encoding="utf-8")
