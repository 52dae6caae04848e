"""What cutting a net into pieces costs, in processor time: run by runtime.py on one core.

All contestants take turns in every round, in an order that turns round; each is called once to warm up and once to be
measured. Processor time of the whole process is counted, which other work on the machine disturbs less than wall time.
A ratio is that to the mean of two plain sessions of the same vendor in the same round; the median over the rounds, and
the quarter and three quarters, are printed. The rounds are spread over many processes, and each makes the contestants
in an order drawn by lot: where a library happens to find its memory moves a session by several percent, as the two
plain ones show, and what is made first finds it better.

`bare` is the cost of the cut itself: the vendor's own requests over the same pieces, their tensors bound once, called
one after the other with nothing between. `a cut` is what every cut adds to the contestant's own single piece.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import onnxruntime
import openvino

from dovetail.backends.openvino.core import core
from dovetail.exporters import to_onnx
from dovetail.formats.openvino import count_submodels
from dovetail.ir import AnyArray, Graph
from dovetail.partition import PartitionedGraph
from dovetail.plan import Plan
from runtimes.net import (
    DEVICES,
    ONE_THREAD,
    Call,
    arguments,
    cut,
    dovetail_session,
    even,
    hetero,
    image_for,
    mobilenet,
    two_devices,
)

_OPENVINO, _ORT = "OpenVINO", "ONNX Runtime"
_PIECES = (1, 2, 8)
_PROCESSES = 24


@dataclass(frozen=True)
class Contestant:
    """A way to run the net; `base` is the vendor whose plain session it is measured against."""

    base: str
    name: str
    pieces: int
    call: Call

    @property
    def title(self) -> str:
        """Return the name in the table."""
        return f"{self.base}, {self.name}, {self.pieces}"


def _plain_openvino(model: bytes | openvino.CompiledModel, image: AnyArray) -> Call:
    made = core().compile_model(core().read_model(model), "CPUA", ONE_THREAD) if isinstance(model, bytes) else model
    request = made.create_infer_request()

    def call() -> object:
        request.set_input_tensor(openvino.Tensor(image, shared_memory=True))
        request.infer(share_outputs=True)
        return request.get_output_tensor().data.copy()

    return call


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _plain_ort(model: bytes, feed: Mapping[str, AnyArray]) -> Call:
    return partial(_session(model).run, None, feed)


def _chain(parts: PartitionedGraph, image: AnyArray) -> Call:
    """Return a chain as anybody would write it."""
    sessions = [_session(to_onnx(part.graph).SerializeToString()) for part in parts.partitions]

    def call() -> object:
        values = {parts.source.graph.inputs[0]: image}
        for part, session in zip(parts.partitions, sessions, strict=True):
            fed = {name: values[name] for name in part.graph.inputs}
            values |= dict(zip(part.graph.outputs, session.run(list(part.graph.outputs), fed), strict=True))
        return values

    return call


def _dovetail(parts: PartitionedGraph, feed: Mapping[str, AnyArray]) -> Call:
    return partial(dovetail_session(parts).run, feed)


def _bare(parts: PartitionedGraph, feed: Mapping[str, AnyArray]) -> Call:
    """Return a loop over what the vendors' requests of a session have bound; nothing is looked at or handed out."""
    session = dovetail_session(parts)
    session.run(feed)
    calls: list[Call] = []
    for stage in session._stages:
        one: Any = stage.executable
        if hasattr(one, "_request"):
            calls.append(lambda request=one._request: request.infer(share_outputs=True))
        else:
            calls.append(lambda one=one: one._session.run_with_iobinding(one._binding))

    def call() -> object:
        for piece in calls:
            piece()
        # The session owns what is bound.
        return session

    return call


_OURS = {"Dovetail": _dovetail, "bare": _bare}


def contestants(graph: Graph, image: AnyArray, lot: int) -> list[Contestant]:
    """Return everybody, made in the order that the lot gives."""
    model = to_onnx(graph).SerializeToString()
    feed = {graph.inputs[0]: image}
    makers: list[Callable[[], Contestant]] = []
    for name in ("plain", "plain again"):
        makers.append(partial(_made, _OPENVINO, name, 1, partial(_plain_openvino, model, image)))
        makers.append(partial(_made, _ORT, name, 1, partial(_plain_ort, model, feed)))
    for pieces in _PIECES:
        plan, parts = cut(graph, even(pieces), DEVICES)
        makers += _ours(_OPENVINO, parts, feed)
        makers.append(partial(_hetero, graph, plan, image))
        _, parts = cut(graph, even(pieces), ("cpu", "ort:CPU"))
        makers += _ours(_ORT, parts, feed)
        makers.append(partial(_made, _ORT, "chain of sessions", pieces, partial(_chain, parts, image)))
    random.Random(lot).shuffle(makers)
    return [make() for make in makers]


def _made(base: str, name: str, pieces: int, make: Callable[[], Call]) -> Contestant:
    return Contestant(base, name, pieces, make())


def _hetero(graph: Graph, plan: Plan, image: AnyArray) -> Contestant:
    compiled = hetero(graph, plan)
    return Contestant(_OPENVINO, "HETERO", count_submodels(compiled), _plain_openvino(compiled, image))


def _ours(base: str, parts: PartitionedGraph, feed: Mapping[str, AnyArray]) -> list[Callable[[], Contestant]]:
    pieces = len(parts.partitions)
    return [partial(_made, base, name, pieces, partial(make, parts, feed)) for name, make in _OURS.items()]


def measure(everybody: Sequence[Contestant], rounds: int) -> dict[str, list[float]]:
    """Return the processor time in seconds of every contestant in every round; two rounds warm up."""
    times: dict[str, list[float]] = {one.title: [] for one in everybody}
    for number in range(rounds + 2):
        for one in everybody if number % 2 == 0 else reversed(everybody):
            one.call()
            start = time.process_time()
            one.call()
            elapsed = time.process_time() - start
            if number >= 2:
                times[one.title].append(elapsed)
    return times


def _place(row: Mapping[str, object]) -> tuple[object, ...]:
    """Sort by vendor, the plain ones first, then by pieces."""
    return row["base"] != _OPENVINO, not str(row["name"]).startswith("plain"), row["pieces"], str(row["name"])


def _print(rows: Sequence[Mapping[str, object]], times: Mapping[str, list[float]]) -> None:
    heads = ("fastest ms", "median ms", "ratio", "1/4", "3/4", "a cut us")
    print(f"{'contestant, pieces':36}" + "".join(f"{head:>11}" for head in heads))
    whole: dict[tuple[object, object], float] = {}
    for row in rows:
        title, base, pieces = str(row["title"]), row["base"], int(str(row["pieces"]))
        mine = times[title]
        plains = zip(times[f"{base}, plain, 1"], times[f"{base}, plain again, 1"], strict=True)
        ratios = [one / statistics.fmean(both) for one, both in zip(mine, plains, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        median = statistics.median(mine)
        whole.setdefault((base, row["name"]), median)
        cells = [f"{min(mine) * 1e3:.2f}", f"{median * 1e3:.2f}", *(f"{ratio:.3f}" for ratio in (middle, low, high))]
        if pieces > 1:
            cells.append(f"{(median - whole[base, row['name']]) / (pieces - 1) * 1e6:.0f}")
        print(f"{title:36}" + "".join(f"{cell:>11}" for cell in cells))


def _one_process(rounds: int, side: int, lot: int) -> None:
    """Measure, and print the times for the process that asked."""
    two_devices()
    everybody = contestants(mobilenet(side), image_for(side), lot)
    times = measure(everybody, rounds)
    rows = [{"title": one.title, "base": one.base, "name": one.name, "pieces": one.pieces} for one in everybody]
    print(json.dumps({"rows": rows, "times": times}))


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--lot", type=int, help="One of the processes: the number of its lot.")
    options = parser.parse_args()
    if options.lot is not None:
        _one_process(options.rounds, options.side, options.lot)
        return
    count = min(_PROCESSES, options.rounds)
    each = options.rounds // count
    command = [sys.executable, "-m", "runtimes.overhead", f"--rounds={each}", f"--side={options.side}"]
    times: dict[str, list[float]] = {}
    rows: list[dict[str, object]] = []
    for lot in range(count):
        done = subprocess.run([*command, f"--lot={lot}"], check=True, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        rows = sorted(found["rows"], key=_place)
        for title, values in found["times"].items():
            times.setdefault(title, []).extend(values)
    print(f"{count} processes, {each} rounds each")
    _print(rows, times)


if __name__ == "__main__":
    main()
