"""What cutting a net into pieces costs, in processor time: run by runtime.py on one core.

All contestants take turns in every round, in an order that turns round; each is called once to warm up and once to be
measured. Processor time of the whole process is counted, which other work on the machine disturbs less than wall time.
A ratio is that to the mean of two plain sessions of the same vendor in the same round; the median over the rounds, and
the quarter and three quarters, are printed. The rounds are spread over several processes: where a library happens to
find its memory moves a session by two percent, as the two plain ones show.

`bare` is the cost of the cut itself: the vendor's own requests over the same pieces, their tensors bound once, called
one after the other with nothing between. `a cut` is what every cut adds to the contestant's own single piece.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnxruntime
import openvino

from dovetail.backends.openvino.core import core
from dovetail.exporters import to_onnx
from dovetail.formats.openvino import count_submodels
from dovetail.ir import AnyArray, Graph
from dovetail.partition import PartitionedGraph
from dovetail.runtime import Session
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
_PROCESSES = 6


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


def _bare(session: Session, feed: Mapping[str, AnyArray]) -> Call:
    """Return a loop over what the vendors' requests of a session have bound; nothing is looked at or handed out."""
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


def contestants(graph: Graph, image: AnyArray) -> list[Contestant]:
    """Return everybody; the first of each vendor is its plain session."""
    model = to_onnx(graph).SerializeToString()
    feed = {graph.inputs[0]: image}
    found = [Contestant(_OPENVINO, name, 1, _plain_openvino(model, image)) for name in ("plain", "plain again")]
    for name in ("plain", "plain again"):
        plain = _session(model)
        found.append(Contestant(_ORT, name, 1, lambda plain=plain: plain.run(None, feed)))
    for pieces in _PIECES:
        plan, parts = cut(graph, even(pieces), DEVICES)
        found += _ours(_OPENVINO, parts, feed)
        compiled = hetero(graph, plan)
        found.append(Contestant(_OPENVINO, "HETERO", count_submodels(compiled), _plain_openvino(compiled, image)))
    for pieces in _PIECES:
        _, parts = cut(graph, even(pieces), ("cpu", "ort:CPU"))
        found += _ours(_ORT, parts, feed)
        found.append(Contestant(_ORT, "chain of sessions", pieces, _chain(parts, image)))
    return found


def _ours(base: str, parts: PartitionedGraph, feed: Mapping[str, AnyArray]) -> list[Contestant]:
    session, other = dovetail_session(parts), dovetail_session(parts)
    pieces = len(parts.partitions)
    bare = _bare(other, feed)
    return [Contestant(base, "Dovetail", pieces, lambda: session.run(feed)), Contestant(base, "bare", pieces, bare)]


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


def _one_process(rounds: int, side: int) -> None:
    """Measure, and print the times for the process that asked."""
    two_devices()
    everybody = contestants(mobilenet(side), image_for(side))
    times = measure(everybody, rounds)
    rows = [{"title": one.title, "base": one.base, "name": one.name, "pieces": one.pieces} for one in everybody]
    print(json.dumps({"rows": rows, "times": times}))


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--one", action="store_true", help="One of the processes.")
    options = parser.parse_args()
    if options.one:
        _one_process(options.rounds, options.side)
        return
    count = min(_PROCESSES, options.rounds)
    each = options.rounds // count
    command = [sys.executable, "-m", "runtimes.overhead", "--one", f"--rounds={each}", f"--side={options.side}"]
    times: dict[str, list[float]] = {}
    rows: list[dict[str, object]] = []
    for _ in range(count):
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        rows = found["rows"]
        for title, values in found["times"].items():
            times.setdefault(title, []).extend(values)
    print(f"{count} processes, {each} rounds each")
    _print(rows, times)


if __name__ == "__main__":
    main()
