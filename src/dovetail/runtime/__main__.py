"""The command of a board: `python -m dovetail.runtime`; standard library and numpy only."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dovetail._version import __version__
from dovetail.bundle.directory import load_bundle
from dovetail.errors import DovetailError
from dovetail.runtime.memory import memory_peak
from dovetail.runtime.place import LocalRuntime
from dovetail.runtime.recording import RecordOptions, record
from dovetail.runtime.rows import read_feeds, write_rows
from dovetail.runtime.session import SessionOptions, open_session

_BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it is done, 2 for bad input, which one line on stderr explains."""
    parsed = _parser().parse_args(arguments)
    try:
        document = {"run": _run, "measure": _measure, "devices": _devices}[parsed.command](parsed)
    except DovetailError as error:
        sys.stderr.write(f"error: {error}\n")
        return _BAD_INPUT
    sys.stdout.write(json.dumps(document) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m dovetail.runtime", description="Run bundles on a board.")
    parser.add_argument("--version", action="version", version=f"dovetail-runtime {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run samples and write the outputs as they are stored")
    run.add_argument("--tap", action="append", default=[], metavar="TENSOR", help="also write this tensor; repeatable")
    measure = commands.add_parser("measure", help="run samples, time the model, and write a folder to bring back")
    measure.add_argument("--runs", type=int, default=20, help="runs that are timed; 0 times nothing (default 20)")
    measure.add_argument("--warm-ups", type=int, default=2, help="runs before them (default 2)")
    measure.add_argument("--layers", action="store_true", help="also write every tensor that can be read")
    for command, what in ((run, "FILE"), (measure, "FOLDER")):
        command.add_argument("bundle", type=Path, metavar="BUNDLE")
        command.add_argument("-i", "--input", type=Path, required=True, metavar="NPZ", help="arrays [N, ...] by name")
        command.add_argument("-o", "--output", type=Path, required=True, metavar=what)
        command.add_argument("--contain", action="store_true", help="run drivers that may crash in worker processes")
    commands.add_parser("devices", help="say what can run bundles here")
    return parser


def _run(parsed: argparse.Namespace) -> dict[str, object]:
    bundle = load_bundle(parsed.bundle)
    rows = []
    with open_session(bundle, _options(parsed)) as session:
        for feed in read_feeds(parsed.input, bundle.inputs):
            run = session.run(feed, parsed.tap)
            rows.append({**run.taps, **run.outputs})
    write_rows(parsed.output, rows)
    return {"samples": len(rows), "output": str(parsed.output), "peak_bytes": memory_peak()}


def _measure(parsed: argparse.Namespace) -> dict[str, object]:
    bundle = load_bundle(parsed.bundle)
    feeds = list(read_feeds(parsed.input, bundle.inputs))
    options = RecordOptions(parsed.layers, parsed.warm_ups, parsed.runs)
    with open_session(bundle, _options(parsed)) as session:
        record(session, feeds, parsed.output, options)
        devices = session.devices
    return {"samples": len(feeds), "devices": list(devices), "output": str(parsed.output)}


def _devices(parsed: argparse.Namespace) -> dict[str, object]:
    with LocalRuntime() as here:
        found = here.devices()
    rows = [
        {"name": one.name, "version": one.version, "devices": list(one.devices), "reason": one.reason} for one in found
    ]
    return {"dovetail-runtime": __version__, "backends": rows}


def _options(parsed: argparse.Namespace) -> SessionOptions:
    if not parsed.contain:
        return SessionOptions()
    # Starting processes is for who asks for it: a board need not pay for the import.
    from dovetail.backend.containment import WorkerLimits

    return SessionOptions(limits=WorkerLimits())


if __name__ == "__main__":
    sys.exit(main())
