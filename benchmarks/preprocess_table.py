"""Is the right preprocess proposed first? Write docs/reference/preprocess.md.

python benchmarks/preprocess_table.py [--model PART ...] [--pictures N] [--page FILE]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dovetail
import zoo.machine as machine
from dovetail.data.image_store import list_images
from dovetail.data.preprocess import Preprocess, StepKind
from dovetail.inputs import InputTypes, Proposals, propose_preprocess, stated_preprocess
from dovetail.outputs.ends import image_of
from dovetail.quantize import is_quantized
from zoo.catalogue import models_root
from zoo.pictures import CASES, Pictured, picture_folder
from zoo.table import markdown, text

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "preprocess.md"


@dataclass(frozen=True, slots=True)
class Row:
    """One model: what is proposed, how likely, and whether it is what its maker states."""

    model: str
    source: str
    proposed: str
    probability: float
    values: str
    geometry: str
    rivals: str
    """What it is not told from by odds of four to one."""
    cpu_s: float


def main() -> int:
    """Propose for the models that were asked for."""
    options = _arguments()
    root = models_root()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as work:
        for case in CASES:
            if options.model and not any(part in case.file for part in options.model):
                continue
            row = run_case(case, root, Path(work), options.pictures)
            if row is not None:
                rows.append(row)
                print(text(*_table([row])), file=sys.stderr, flush=True)
    if options.page is not None:
        write_page(options.page, rows, options.pictures)
    print(text(*_table(rows)))
    return 0


def run_case(case: Pictured, root: Path, work: Path, most: int) -> Row | None:
    """Return the row of a model, or None where it takes no pictures."""
    loaded = dovetail.normalize(dovetail.load_model(root / case.file, dovetail.LoadOptions(shapes=case.shapes)))
    graph = dovetail.dequantize(loaded).graph if is_quantized(loaded) else loaded
    image = image_of(graph)
    if image is None:
        return None
    folder = picture_folder(case, root, work)
    pictures = [folder / name for name in list_images(folder)][:most]
    started = time.process_time()
    types = InputTypes(loaded.types[image.name], graph.types[image.name])
    stated = stated_preprocess(root / case.file, types, image)
    found = propose_preprocess(graph, pictures, stated)
    return Row(
        case.file,
        found.source or "tried",
        found.best.name,
        found.best.probability,
        "right" if _same_values(found.best.preprocess, case.preprocess) else f"wrong ({_rank(found, case)})",
        _geometry(found, case.preprocess),
        "; ".join(item.name for item in found.rivals),
        time.process_time() - started,
    )


def _same_values(found: Preprocess, real: Preprocess) -> bool:
    """Tell whether order, mean and scale are the same, up to a grey level and a hundredth."""
    pixels = np.array([[0.0] * found.channel_count, [255.0] * found.channel_count])
    if found.channel_count != real.channel_count:
        return False
    tables = [(pixels - np.array(item.mean)) * np.array(item.scale) for item in (found, real)]
    span = float(np.ptp(tables[1]))
    return found.channels is real.channels and bool(np.abs(tables[0] - tables[1]).max() <= 0.015 * span)


def _rank(found: Proposals, case: Pictured) -> str:
    places = [index for index, item in enumerate(found.ranked, 1) if _same_values(item.preprocess, case.preprocess)]
    return f"the right one is number {places[0]}" if places else "the right one is not among them"


_UNDECIDED = "cannot tell"


def _geometry(found: Proposals, real: Preprocess) -> str:
    """Say whether pictures are stretched, letterboxed or cropped as they should be, or whether nobody claims it."""
    first, wanted = _kind(found.best.preprocess), _kind(real)
    if first in ("as they are", wanted):
        return "right"
    told = wanted not in {_kind(item.preprocess) for item in found.rivals}
    return f"{first}, stated {wanted}" if told else f"{_UNDECIDED} {first} from {wanted}"


def _kind(preprocess: Preprocess) -> str:
    kinds = {step.kind for step in preprocess.steps}
    if not kinds:
        return "as they are"
    if StepKind.LETTERBOX in kinds:
        return "letterbox"
    return "crop" if StepKind.CENTRE_CROP in kinds else "stretch"


_HEADS = ("model", "from", "proposed first", "probability", "order and values", "geometry", "not told from", "s")


def _table(rows: Sequence[Row]) -> tuple[Sequence[str], list[list[str]]]:
    return _HEADS, [
        [
            row.model,
            row.source,
            row.proposed,
            f"{row.probability:.2f}",
            row.values,
            row.geometry,
            row.rivals,
            f"{row.cpu_s:.1f}",
        ]
        for row in rows
    ]


def write_page(path: Path, rows: Sequence[Row], most: int) -> None:
    """Write the page."""
    values = sum(row.values == "right" for row in rows)
    geometry = sum(row.geometry == "right" for row in rows)
    undecided = sum(row.geometry.startswith(_UNDECIDED) for row in rows)
    tried = sum(row.source == "tried" for row in rows)
    lines = [
        "# Preprocessing",
        "",
        "Made by `python benchmarks/preprocess_table.py --page docs/reference/preprocess.md`; do not edit. The models "
        "and pictures are a collection that is not part of this repository.",
        "",
        *(f"- {fact}" for fact in machine.facts()),
        "",
        f"What is proposed first for every model of the collection that takes pictures, from at most {most} of them: "
        "as the file states it, or tried. `order and values` is right where order of the channels, mean and "
        "scale are those that the maker states; (x - 127) / 128 and x / 127.5 - 1 are the same. `geometry` compares "
        "stretched, letterboxed and cropped; where the stated one is among those that the pictures do not tell from "
        "the first by odds of four to one, it is undecided, and `tune` says so. `s` are seconds of processor time.",
        "",
        *markdown(*_table(rows)).splitlines(),
        "",
        f"Order and values are right first on {values} of {len(rows)} models, {tried} of them tried and not stated; "
        f"the geometry on {geometry}, undecided on {undecided} and wrong on {len(rows) - geometry - undecided}.",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="only files whose path has this in it; may be repeated")
    parser.add_argument("--pictures", type=int, default=24)
    parser.add_argument("--page", type=Path, nargs="?", const=_PAGE)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
