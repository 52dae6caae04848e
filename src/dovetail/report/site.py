"""Render runs as one HTML file: verdict first, the network to walk through, the front, time, and every table.

Nothing is fetched, which a policy in the file enforces; scripts and pictures are inside.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from importlib.resources import files

from dovetail.plan.placement import HOST
from dovetail.report.charts import front_chart, time_chart
from dovetail.report.figures import bytes_text, time_text
from dovetail.report.html import block_html, escaped
from dovetail.report.network import DrawnNetwork, NetworkUnit
from dovetail.report.page import Facts, Prose, Table, flexible, left, right, wrapped
from dovetail.report.view import RunView

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_COLORS = (("device", "device"), ("precision", "precision"), ("noise", "noise at low precision"), ("time", "time"))
_DIGITS = 6
_LESS = "\\u003c"
"""The sign in JSON, so that no text ends the element that holds it."""


def runs_html(views: Sequence[RunView]) -> str:
    """Return a report of one run, or of several beside each other, as a whole HTML document."""
    title = views[0].page.title if len(views) == 1 else f"Dovetail: {len(views)} runs"
    assets = files("dovetail.report") / "assets"
    style, script = ((assets / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    differing = _differing(views)
    data = json.dumps(
        [_run_data(view, changed) for view, changed in zip(views, differing, strict=True)],
        ensure_ascii=False,
        separators=(",", ":"),
    ).replace("<", _LESS)
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="Dovetail: a report">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escaped(title)}</title>",
        f"<style>{style}</style></head><body>",
        '<header class="top"><button id="theme" type="button" aria-pressed="false">Dark</button></header>',
        "<main>",
        *(_differences(views) if len(views) > 1 else ()),
        f'<div class="runs{" two" if len(views) > 1 else ""}">',
        *(line for index, view in enumerate(views) for line in _run(index, view, several=len(views) > 1)),
        "</div></main>",
        f'<script type="application/json" id="data">{data}</script>',
        f"<script>{script}</script></body></html>",
    ]
    return "\n".join(lines) + "\n"


def _run(index: int, view: RunView, *, several: bool) -> Iterator[str]:
    page = view.page
    yield f'<section aria-label="{escaped(page.title)}">'
    if page.verdict:
        yield f'<p class="verdict {page.tone.value}">{escaped(page.verdict)}</p>'
    heading = "h2" if several else "h1"
    yield f"<{heading}>{escaped(f'{view.name}: {page.title}' if several else page.title)}</{heading}>"
    yield from _summary(view)
    yield from _graph(index, view.network, several=several)
    yield from front_chart(view.network)
    yield from time_chart(view.network)
    for block in page.blocks:
        yield from block_html(block)
    yield from _borders(view.network)
    if view.reproduce:
        yield from block_html(Prose("How to get it again", view.reproduce))
    yield "</section>"


def _summary(view: RunView) -> Iterator[str]:
    """Yield what a plan is in a few figures; scores follow in the tables."""
    units = view.network.units
    if not units:
        return
    raised = sum(unit.role in ("culprit", "companion") for unit in units)
    away = sum(unit.target == HOST for unit in units)
    pairs = [("predicted latency", _latency(view)), ("units", f"{len(units)}, {raised} raised, {away} on the CPU")]
    spent = sum(unit.latency_ns or 0.0 for unit in units)
    if spent > 0:
        inside = sum(unit.latency_ns or 0.0 for unit in units if unit.target != HOST)
        pairs.append(("time of the units on the NPU", f"{inside / spent:.1%}"))
    yield from block_html(Facts("", tuple(pairs)))


def _graph(index: int, network: DrawnNetwork, *, several: bool) -> Iterator[str]:
    if not network.units:
        return
    count = len(network.units)
    raised = sum(unit.role in ("culprit", "companion") for unit in network.units)
    colors = (*_COLORS, ("difference", "what differs")) if several else _COLORS
    options = "".join(f'<option value="{value}">{text}</option>' for value, text in colors)
    label = f"Network of {count} units, {raised} raised. The same is in the list of units below."
    yield "<h2>Network</h2>"
    yield f'<div data-run="{index}">'
    yield '<form class="tools" role="search">'
    yield f'<label>Colour <select name="color">{options}</select></label>'
    yield '<label>Find <input name="unit" type="search" aria-label="Name or operator"></label><button>Next</button>'
    for act, text in (("in", "Zoom in"), ("out", "Zoom out"), ("fit", "Whole"), ("culprit", "Next raised")):
        yield f'<button type="button" data-act="{act}">{text}</button>'
    yield "</form>"
    yield (
        f'<div class="graph"><canvas tabindex="0" role="application" aria-label="{escaped(label)}" '
        f'aria-describedby="keys-{index}"></canvas>'
    )
    yield (
        '<div class="details" tabindex="0" role="group" aria-label="Unit" aria-live="polite">'
        "<p>Click a unit, or take it from the list.</p></div></div>"
    )
    yield f'<ul class="legend" aria-label="Colours"></ul><p class="note" id="keys-{index}">'
    yield (
        "Drag to move, turn the wheel on the focused graph to zoom; arrows, + and -, 0 for the whole, n and p for the "
        "next and the previous unit, c for the next raised one. Dashed edges cross a border between placements; "
        "a frame marks what is raised.</p>"
    )
    yield f'<details class="units"><summary>List of {count} units</summary></details></div>'


def _borders(network: DrawnNetwork) -> Iterator[str]:
    if not network.borders:
        return
    lost = sum(item.latency_ns for item in network.borders)
    rows = tuple(
        (item.tensor, item.producer, item.consumer, bytes_text(item.transfer_bytes), time_text(item.latency_ns))
        for item in sorted(network.borders, key=lambda item: -item.latency_ns)
    )
    columns = (flexible("tensor"), left("from"), left("to"), right("moved"), right("time"))
    note = f"{time_text(lost)} are lost at {len(rows)} borders."
    yield from block_html(Table("Borders between placements", columns, rows, note))


def _differing(views: Sequence[RunView]) -> list[list[str]]:
    """Return for every unit of every run where its nodes are in the other runs, or nothing where that is the same."""
    placed = [
        {node: f"{unit.target}@{unit.precision}" for unit in view.network.units for node in unit.nodes}
        for view in views
    ]

    def elsewhere(own: int, unit: NetworkUnit) -> str:
        here = f"{unit.target}@{unit.precision}"
        found = {
            f"{view.name}: {places.get(node, 'not there')}"
            for index, (view, places) in enumerate(zip(views, placed, strict=True))
            for node in unit.nodes
            if index != own and places.get(node) != here
        }
        return "; ".join(sorted(found))

    return [[elsewhere(index, unit) for unit in view.network.units] for index, view in enumerate(views)]


def _differences(views: Sequence[RunView]) -> Iterator[str]:
    """Yield the verdicts beside each other, and the units that are placed otherwise."""
    yield "<h1>Runs beside each other</h1>"
    verdicts = tuple((view.name, view.page.verdict, _latency(view)) for view in views)
    yield from block_html(Table("", (left("run"), wrapped("verdict"), right("predicted")), verdicts))
    first = views[0]
    for other in views[1:]:
        there = {node: unit for unit in other.network.units for node in unit.nodes}
        rows = []
        for unit in first.network.units:
            match = there.get(unit.nodes[0])
            place = "not there" if match is None else f"{match.target}@{match.precision}"
            here = f"{unit.target}@{unit.precision}"
            if place != here:
                rows.append((unit.name, unit.ops, here, place, (match.reason if match else "") or unit.reason))
        title = f"Units that {first.name} and {other.name} place otherwise"
        columns = (left("unit"), left("operators"), left(first.name), left(other.name), wrapped("why"))
        yield from block_html(
            Table(title, columns, tuple(rows)) if rows else Prose(title, ("None: both place every unit alike.",))
        )


def _latency(view: RunView) -> str:
    known = [unit.latency_ns for unit in view.network.units]
    if not known or any(item is None for item in known):
        return "-"
    borders = sum(item.latency_ns for item in view.network.borders)
    switches = max(0, len(view.network.parts) - 1) * view.network.switch_ns
    return time_text(sum(item or 0.0 for item in known) + borders + switches)


def _run_data(view: RunView, changed: Sequence[str]) -> dict[str, object]:
    layout = view.network.layout()
    units = [
        {
            **_unit_data(unit),
            "layer": layer,
            "x": round(at, 2),
            "bends": [[round(bend, 2) for bend in bends] for bends in routes],
            "changed": other,
        }
        for unit, (layer, at), routes, other in zip(
            view.network.units, layout.places, layout.routes, changed, strict=True
        )
    ]
    return {"name": view.name, "units": units}


def _unit_data(unit: NetworkUnit) -> dict[str, object]:
    names = (
        *("name", "ops", "nodes", "inputs", "target", "precision", "partition", "role", "reason", "noise"),
        *("noise_reason", "latency_ns", "source", "macs", "shape", "low", "high", "channels", "score_without"),
    )
    return {"place": f"{unit.target}@{unit.precision}", **{name: _short(getattr(unit, name)) for name in names}}


def _short(value: object) -> object:
    """Return a value for JSON with as many digits as a screen shows."""
    if isinstance(value, tuple):
        return [_short(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
