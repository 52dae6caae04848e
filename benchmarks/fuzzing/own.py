"""Fuzz targets: the files that Dovetail itself writes, as others may have left them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dovetail.bundle import load_bundle
from dovetail.bundle.archive import import_bundle
from dovetail.bundle.directory import bundle_to_files
from dovetail.compile.cache import _SUFFIX as SUFFIX
from dovetail.cost.table import load_cost_table
from dovetail.cost.unit_prices import ProbedPrices
from dovetail.ir import AnyArray, graph_from_bytes, graph_to_bytes, parse_graph, print_graph
from dovetail.plan.plan import plan_from_json
from dovetail.quantize.ranges import ranges_from_json
from dovetail.report.promise import Promise
from dovetail.search.bisect.command import MetricRule
from dovetail.search.bisect.state import Bisection, Response, Setup
from dovetail.search.bisect.state import read_log as read_answers
from dovetail.search.journal import Journal, block_key
from dovetail.search.log import SCHEMA, SearchLog, read_search_log
from dovetail.search.trial import Scores, Status
from fuzzing.network import Small
from fuzzing.parser import Parser, same_again, through


def unsealed(text: str) -> bytes:
    """Return a document without its checksum, which would refuse nearly every mutant."""
    document = json.loads(text)
    document.pop("checksum", None)
    return json.dumps(document, indent=1).encode()


def unsealed_lines(text: str) -> bytes:
    """Return lines without their checksums."""
    return b"".join(json.dumps(json.loads(unsealed(line))).encode() + b"\n" for line in text.splitlines())


def plans(small: Small) -> tuple[Parser, ...]:
    """Return the parser of plans: what is read is written and read again, and asked what it is for."""

    def parse(data: bytes) -> object:
        plan = plan_from_json(data.decode(errors="replace"))
        same_again(plan_from_json(plan.to_json()), plan, "the plan")
        plan.to_json().encode()
        plan.check(small.graph)
        return plan.digest

    return (Parser("plan", (unsealed(small.plan.to_json()), unsealed(small.bundle.plan.to_json())), parse),)


def ranges(small: Small, folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of ranges and of cost tables."""

    def parse(data: bytes) -> object:
        found = ranges_from_json(data.decode(errors="replace"))
        found.to_json().encode()
        same_again(ranges_from_json(found.to_json()), found, "ranges")
        return found

    entries = [{"node": "Conv:c", "precision": "i8pc", "latency_ns": 12.5}]
    table = {"schema": 1, "kind": "dovetail-costs", "target": "vsi:v853", "source": "a board", "quality": "measured"}
    costs = json.dumps({**table, "entries": entries, "overhead_ns": 3, "bytes_per_s": 1e9}).encode()
    return (
        Parser("ranges", (unsealed(small.ranges.to_json()),), parse),
        Parser("cost table", (costs,), through(folder / "costs.json", lambda path: load_cost_table(path).to_json())),
    )


def graphs(small: Small) -> tuple[Parser, ...]:
    """Return the parsers of Dovetail's own models: the file, and the text in it."""

    def binary(data: bytes) -> object:
        found = graph_from_bytes(data)
        same_again(graph_from_bytes(graph_to_bytes(found)).digest, found.digest, "the graph")
        return found

    whole = graph_to_bytes(small.graph)
    text = print_graph(small.graph).encode()
    return (
        Parser("graph file", (whole,), binary),
        Parser("graph text", (text,), lambda data: parse_graph(data.decode(errors="replace")).digest),
    )


def bundles(small: Small, folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of bundles: the manifest and the plan of a folder, and the one file."""
    files = bundle_to_files(small.bundle)
    place = folder / "bundle"
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)

    def of(name: str) -> Parser:
        whole = unsealed(files[name].decode())

        def parse(data: bytes) -> object:
            (place / name).write_bytes(data)
            try:
                return load_bundle(place).tensors
            finally:
                (place / name).write_bytes(whole)

        return Parser(f"bundle {name}", (whole,), parse)

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    single = Parser("bundle in one file", (stream.getvalue(),), through(folder / "small.dvb", import_bundle))
    return of("manifest.json"), single, *_blobs(small)


def _blobs(small: Small) -> tuple[Parser, ...]:
    from dovetail.backend.frames import BrokenFrameError, arrays_from_bytes, arrays_to_bytes
    from dovetail.backends.headed import pack, unpack

    feed: dict[str, AnyArray] = {"x": np.zeros((1, 3, 2, 2), np.float32), "n": np.arange(3)}
    facts, payload = arrays_to_bytes(feed)
    framed = json.dumps(facts).encode() + b"\n" + payload

    def arrays(data: bytes) -> object:
        head, _, rest = data.partition(b"\n")
        with contextlib.suppress(ValueError, RecursionError):
            return arrays_from_bytes(json.loads(head), rest)
        return None

    blob = pack("cpu", {"a": "b"}, "mark", small.bundle.partitions[0].blob.payload[:200])
    return (
        Parser("arrays of a worker", (framed,), arrays, (BrokenFrameError,)),
        Parser("blob with a head", (blob,), lambda data: unpack(data, "blob")),
        *_programs(small),
    )


def _programs(small: Small) -> tuple[Parser, ...]:
    """Return the parsers of what the reference and VeriSilicon's exact simulation compiled: the JSON before the raw."""
    from dovetail.backends.reference.blob import program_from_bytes as reference_program
    from dovetail.backends.verisilicon.blob import program_from_bytes as vendor_program

    found = []
    for name, place, mark, read in (
        ("reference", "cpu@fp32", b"dovetail reference 1 ", reference_program),
        ("npusim", "vsi:v853@i8pc", b"dovetail vsi 2 ", vendor_program),
    ):
        blob = _compiled(small, name, place)
        blob = blob[blob.index(mark) + len(mark) :]
        length, _, rest = blob.partition(b"\n")
        text, raw = rest[: int(length)], rest[int(length) :]
        # The length is made to fit: what is fuzzed is the text behind it.
        parse = _behind_length(mark, raw, read)
        found.append(Parser(f"program of {name}", (text,), parse))
    return tuple(found)


def _behind_length(mark: bytes, raw: bytes, read: Callable[[bytes], object]) -> Callable[[bytes], object]:
    return lambda data: read(mark + b"%d\n" % len(data) + data + raw)


def _compiled(small: Small, backend: str, place: str) -> bytes:
    """Return the blob of the small network, all of it at one place."""
    import dovetail
    from dovetail.backend.protocols import CompileOptions, Fidelity
    from dovetail.backend.registry import backend as find_backend

    placement = dovetail.parse_placement(place)
    plan = dovetail.Plan(small.graph.digest, placement)
    graph = dovetail.quantize(small.graph, plan, small.ranges).graph
    target = dovetail.find_target(placement.target)
    return find_backend(backend).compile(graph, target, CompileOptions(fidelity=Fidelity.EXACT)).payload


def search_files(folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of what searches and bisections keep: logs, the journal, states, figures of a command."""

    def log(path: Path) -> object:
        found = read_search_log(path)
        return found.evaluations(), found.prices(), found.ends()

    rule = MetricRule(json_path="eval.map[0]", at_least=0.5)

    def figure(data: bytes) -> object:
        value = rule.read(data.decode(errors="replace"))
        return None if value is None else rule.passes(value)

    setup = Setup(("a", "b"), (1.0, 2.0), str(folder / "c.txt"), "lines", nodes={"a": ("n",)}, members={"a": ("n",)})
    state = folder / "state"
    state.mkdir()
    (state / "bisect.json").write_bytes(unsealed(setup.to_json()))
    answers = [Response(("a",), Status.PASS, 0.5, "a word"), Response((), Status.CANNOT_TEST)]
    lines = unsealed_lines("".join(f"{item.to_json()}\n" for item in answers))
    return (
        Parser("log of a search", (_log(folder),), through(folder / "log.jsonl", log)),
        Parser("figure of a command", (b'step 1\n{"eval": {"map": [0.25, 1]}}\n',), figure),
        Parser("answers of a bisection", (lines,), through(folder / "answers.jsonl", read_answers)),
        Parser(
            "state of a bisection",
            ((state / "bisect.json").read_bytes(),),
            through(state / "bisect.json", lambda path: Bisection.open(path.parent)),
        ),
        Parser("journal", (_journal(folder),), through(folder / "mutant.sqlite", _recall)),
    )


def _log(folder: Path) -> bytes:
    log = SearchLog(folder / "first.jsonl")
    log.write("search", schema=SCHEMA, graph="g", target="vsi:v853")
    log.evaluation("plan", block_key("fit", (0, 1)), Scores(0.5, np.array([1.0, 0.0])))
    log.write("prices", **ProbedPrices().record())
    log.write("time", ends=[[0.5, 3], [1.0, 7]])
    log.close()
    return unsealed_lines((folder / "first.jsonl").read_text())


def _journal(folder: Path) -> bytes:
    path = folder / "first.sqlite"
    journal = Journal(path, "context")
    journal.record("plan", "block", Scores(0.5, np.array([1.0, 0.0])), 12)
    journal.close()
    return path.read_bytes()


def _recall(path: Path) -> object:
    for name in ("mutant.sqlite-wal", "mutant.sqlite-shm"):
        path.with_name(name).unlink(missing_ok=True)
    journal = Journal(path, "context")
    try:
        scores = journal.recall("plan", "block")
        assert scores is None or (scores.score == 0.5 and scores.per_sample is not None), "another score is recalled"
        return journal.running(), journal.entries()
    finally:
        journal.close()


def records(small: Small, folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of reports, promises, golden tensors, comparisons, and of what users' folders keep."""
    from dovetail.report.promise import load_promise
    from dovetail.report.saved import open_saved

    promise = Promise(
        small.plan, small.graph.digest, "vsi:v853", "top1", None, "1%", None, "d" * 64, 8, 0.5, 0, True, 1.0, 0.5, 12.5
    )
    saved = folder / "saved"
    saved.mkdir()
    (saved / "plan.json").write_text(small.plan.to_json())
    report = json.dumps(
        {
            "kind": "dovetail-report",
            "schema": 1,
            "plan": {"digest": small.plan.digest},
            "scores": [{"name": "hold-out", "samples": 8, "float_score": 1.0, "tuned": 0.5, "tuned_exact": None}],
            "proof": {"latency_ns": 12.5},
            "culprits": [{"unit": "c", "nodes": ["Conv:c"]}],
            "metric": "top1",
            "higher_is_better": True,
            "verdict": "met",
        }
    ).encode()
    return (
        Parser("promise", (unsealed(promise.to_json()),), through(folder / "run.json", _again(load_promise))),
        Parser("report", (report,), through(saved / "result.json", lambda path: open_saved(path.parent).record)),
        *_kept(folder),
        *_compared(folder),
    )


def _again(load: Callable[[Path], Promise]) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        first = load(path)
        path.write_text(first.to_json())
        same_again(load(path), first, "the promise")
        return first

    return read


def _compared(folder: Path) -> tuple[Parser, ...]:
    from dovetail.compare import serial
    from dovetail.compare.golden import load_golden, save_golden
    from dovetail.compare.record import CompareVerdict, Comparison, SliceScore, TaskRow, TensorRow

    worst = SliceScore(1, 0, 4, 12.5, "boxes")
    row = TensorRow("y", "Conv:c", (1, 4), 0.5, 20.0, worst, 1.0, 0.5, 0, ((0, 3),), 0.25)
    whole = serial.to_json(
        Comparison(CompareVerdict.PASS, ("why",), (row,), (TaskRow("top1", True, 1.0, 0.5),), ("m",), ("e",))
    )

    def comparison(data: bytes) -> object:
        found = serial.from_json(data.decode(errors="replace"))
        text = serial.to_json(found)
        same_again(serial.to_json(serial.from_json(text)), text, "the comparison")
        return text.encode()

    golden = folder / "golden"
    save_golden(golden, [("0", {"y": np.ones((1, 4), np.float32)})])
    manifest = next(path for path in golden.iterdir() if path.suffix == ".json")
    first = manifest.read_bytes()
    return (
        Parser("comparison", (whole.encode(),), comparison),
        Parser("golden tensors", (first,), through(manifest, lambda path: load_golden(path.parent))),
    )


def _kept(folder: Path) -> tuple[Parser, ...]:
    """Return the parsers of caches: what cannot be read there is asked for or made again."""
    from dovetail.backend.failures import _read_all
    from dovetail.compile.cache import BlobCache
    from dovetail.cost.probed import ProbedAnswer, keep_answer, read_answer
    from dovetail.fit.folder import read_question
    from dovetail.oip.failures import error_from_json

    memory = folder / "failures"
    memory.mkdir()
    stamps = itertools.count(1)

    def failures(data: bytes) -> object:
        (memory / "x.json").write_bytes(data)
        return _read_all(memory, next(stamps))

    keep_answer(folder, "key", ProbedAnswer((1.0, 2.5), "a model"))
    failure: dict[str, object] = {
        "backend": "b",
        "version": "1",
        "target": "t",
        "mark": "",
        "failure": "CRASHED",
        "reason": "r",
    }
    failure |= {"software": "s", "nodes": [["Conv", "label", [0, 1], [2]]]}
    question = {"kind": "dovetail-tune", "schema": 1, "model": "m.onnx", "files": {"plan.json": ["0" * 64]}}
    cache = BlobCache(folder)
    facts = json.dumps({"format": "onnx", "sha256": hashlib.sha256(b"abc").hexdigest()}).encode() + b"\nabc"
    return (
        Parser(
            "prices on record",
            ((folder / "key.json").read_bytes(),),
            through(folder / "k.json", lambda path: read_answer(folder, "k")),
        ),
        Parser("failures on record", (json.dumps(failure).encode(),), failures),
        Parser("blob on record", (facts,), through(folder / f"blob{SUFFIX}", lambda path: cache.get("blob"))),
        Parser(
            "question of a search",
            (json.dumps(question).encode(),),
            through(folder / "request.json", lambda path: read_question(path.parent)),
        ),
        Parser(
            "error of a server",
            (b'{"error": "no", "kind": "PlanError", "hint": null, "option": "x"}',),
            error_from_json,
        ),
    )
