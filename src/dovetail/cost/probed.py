"""Answers of a vendor's performance model, kept on disk by a key of everything that they depend on."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from dovetail.sdk.location import data_folder

FOLDER_VARIABLE = "DOVETAIL_PRICES"
"""Names the folder of answers; by default it is in the user's data folder."""


def price_folder() -> Path:
    """Return the folder of answers."""
    given = os.environ.get(FOLDER_VARIABLE, "")
    return Path(given).expanduser() if given else data_folder() / "prices"


@dataclass(frozen=True, slots=True)
class ProbedAnswer:
    """What units take, in their order; without any the vendor's compiler refused, and `source` says why."""

    latencies_ns: tuple[float, ...]
    source: str


def keep_answer(folder: Path, key: str, answer: ProbedAnswer) -> None:
    """Write an answer, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{key}.{os.getpid()}.{threading.get_ident()}"
    draft.write_text(json.dumps({"latencies_ns": answer.latencies_ns, "source": answer.source}), encoding="utf-8")
    draft.replace(folder / f"{key}.json")


def read_answer(folder: Path, key: str) -> ProbedAnswer | None:
    """Return what is kept under a key; None where nothing is, or nothing that can be read: it is asked for again."""
    try:
        entry = json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))
        return ProbedAnswer(tuple(float(item) for item in entry["latencies_ns"]), str(entry["source"]))
    except (KeyError, OSError, OverflowError, RecursionError, TypeError, ValueError):
        return None
