"""Charts of a report as SVG: the front of plans, and where the time goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.report.figures import number_text, time_text
from dovetail.report.html import escaped
from dovetail.report.network import DrawnNetwork, NetworkPoint

_WIDTH, _HEIGHT, _MARGIN = 640, 240, 56
_HUES = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#9c755f", "#e15759")
_NARROWEST = 2.0


def front_chart(network: DrawnNetwork) -> Iterator[str]:
    """Yield the front: latency, or the number of raised units, against the score."""
    points = network.points
    if len(points) < 2:
        return
    across = [item.latency_ns if item.latency_ns is not None else float(item.raised) for item in points]
    up = [item.score for item in points]
    xs = _scaled(across, _MARGIN, _WIDTH - 20)
    ys = _scaled(up, _HEIGHT - 40, 20)
    texts = [_point_text(item) for item in points]
    label = f"Front of {len(points)} plans: {'; '.join(texts)}"
    yield "<h2>Front of plans</h2>"
    yield f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escaped(label)}" width="{_WIDTH}">'
    yield f'<path class="axis" d="M{_MARGIN} 10V{_HEIGHT - 30}H{_WIDTH - 10}"/>'
    order = sorted(range(len(points)), key=lambda index: across[index])
    yield f'<path class="path" d="M{"L".join(f"{xs[index]:.1f} {ys[index]:.1f}" for index in order)}"/>'
    for item, x, y, text in zip(points, xs, ys, texts, strict=True):
        kind = " ".join(word for word, on in (("dot", True), ("meets", item.meets), ("chosen", item.chosen)) if on)
        radius = 7 if item.chosen else 4
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{escaped(text)}</title></circle>'
    timed = points[0].latency_ns is not None
    ends = (min(across), max(across))
    marks = [time_text(value) if timed else f"{value:.0f}" for value in ends]
    yield f'<text x="{_MARGIN}" y="{_HEIGHT - 12}">{escaped(marks[0])}</text>'
    axis = "latency of the plan" if timed else "raised units"
    yield f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 12}" text-anchor="middle">{axis}</text>'
    yield f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 12}" text-anchor="end">{escaped(marks[1])}</text>'
    for value, y in ((max(up), 24), (min(up), _HEIGHT - 40)):
        yield f'<text x="{_MARGIN - 6}" y="{y}" text-anchor="end">{escaped(number_text(value))}</text>'
    yield "</svg>"
    yield '<p class="note">Filled: the goal is met on the search split. The large one is the plan.</p>'


def _point_text(item: NetworkPoint) -> str:
    latency = "" if item.latency_ns is None else f"{time_text(item.latency_ns)}, "
    chosen = ", chosen" if item.chosen else ""
    return f"{latency}{item.raised} raised, score {number_text(item.score)}{chosen}"


def _scaled(values: Sequence[float], first: float, last: float) -> list[float]:
    low, high = min(values), max(values)
    span = high - low
    return [(first + last) / 2 if span == 0 else first + (value - low) / span * (last - first) for value in values]


def time_chart(network: DrawnNetwork) -> Iterator[str]:
    """Yield the partitions in the order in which they run, as wide as they take, and what borders and switches take."""
    parts = [(item, item.latency_ns) for item in network.parts if item.latency_ns is not None]
    if not parts or len(parts) < len(network.parts):
        return
    borders = sum(item.latency_ns for item in network.borders)
    switches = max(0, len(parts) - 1) * network.switch_ns
    spans = [
        (f"partition {item.index} on {item.target}: {item.units} units", latency, _hue(item.target, network))
        for item, latency in parts
    ]
    spans += [("borders", borders, "#7b8794"), ("switches", switches, "#bfc5cc")]
    whole = sum(latency for _, latency, _ in spans)
    if whole <= 0:
        return
    label = "; ".join(f"{name}, {time_text(latency)}" for name, latency, _ in spans)
    yield "<h2>Timeline, predicted</h2>"
    yield f'<svg viewBox="0 0 {_WIDTH} 60" role="img" aria-label="{escaped(label)}" width="{_WIDTH}">'
    at = 0.0
    for name, latency, hue in spans:
        width = latency / whole * _WIDTH
        if latency > 0:
            shown = max(_NARROWEST, width - 1)
            yield (
                f'<rect x="{at:.2f}" y="6" width="{shown:.2f}" height="30" fill="{hue}">'
                f"<title>{escaped(f'{name}, {time_text(latency)}')}</title></rect>"
            )
        at += width
    yield f'<text x="0" y="54">0</text><text x="{_WIDTH}" y="54" text-anchor="end">{escaped(time_text(whole))}</text>'
    yield "</svg>"
    keys = [(item.target, _hue(item.target, network)) for item, _ in parts]
    keys += [("borders", "#7b8794"), ("switches", "#bfc5cc")]
    yield '<ul class="legend" aria-label="Colours of the timeline">'
    for name, hue in dict.fromkeys(keys):
        yield f'<li><span style="background:{hue}"></span>{escaped(name)}</li>'
    yield "</ul>"


def _hue(target: str, network: DrawnNetwork) -> str:
    # As in report.js, so that a device has one colour on the page: by name, the CPU last.
    targets = sorted({item.target for item in network.parts}, key=lambda name: (name == "cpu", name))
    return _HUES[targets.index(target) % len(_HUES)]
