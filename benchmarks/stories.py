"""A detector, twenty pictures, no labels: how long until a plan, and do labels that it never saw confirm it?

python benchmarks/stories.py [--target NAME ...] [--model PART ...] [--page [FILE]]

Each is what a person types who has nothing but a model, a folder of pictures and a board: no option but the target,
in a home where nothing is remembered. Then float and the bundle are scored by labels. Needs the collected models.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dovetail
import zoo.machine as machine
from dovetail.data import Sample
from dovetail.quantize import load_float
from zoo.catalogue import models_root
from zoo.labelled import CASES, Labelled
from zoo.table import markdown, text

TARGETS = ("vsi:v853", "vsi:a311d", "vsi:imx8mp")
PICTURES = "data_coco20"
GOAL_S = 60.0
_STORIES = {
    "yolo-fastest-1.1": ("several maps", "yolo_fastest_darknet/yolo-fastest-1.1.cfg"),
    "yolox_nano": ("one output, raw", "yolox_nano/yolox_nano.onnx"),
    "yolox_nano_decoded": ("one output, decoded", "yolox_nano/yolox_nano_decoded.onnx"),
}
"""What each model's outputs are, and the file that is typed."""
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "stories.md"
_HEADS = (
    *("model", "outputs", "target", "seconds", "verdict", "raised", "labelled metric", "samples", "float", "bundle"),
    "change",
)


@dataclass(frozen=True, slots=True)
class Story:
    """One model on one board."""

    model: str
    kind: str
    target: str
    seconds: float
    verdict: str
    raised: int
    metric: str
    samples: int
    float_score: float
    score: float
    """What the bundle scores by labels, in the board's exact arithmetic."""

    @property
    def row(self) -> tuple[str, ...]:
        """Return it as a row of the table."""
        scores = (f"{self.float_score:.3f}", f"{self.score:.3f}", f"{self.score - self.float_score:+.3f}")
        place = (self.model, self.kind, self.target, f"{self.seconds:.0f}", self.verdict, str(self.raised))
        return (*place, self.metric, str(self.samples), *scores)


def main() -> int:
    """Tell the stories that were asked for."""
    options = _arguments()
    root = models_root()
    found: list[Story] = []
    for case in CASES:
        if case.name in _STORIES and any(part in case.name for part in options.model or [""]):
            for target in options.target or TARGETS:
                found += told(case, target, root)
                print(*found[-1].row, file=sys.stderr, flush=True)
    rows = [story.row for story in found]
    print(text(_HEADS, rows))
    if options.page is not None:
        options.page.write_text(_page(found, rows))
    return 0


def told(case: Labelled, target: str, root: Path) -> Iterator[Story]:
    """Yield what each labelled metric says of the plan that a search without labels ends with."""
    kind, file = _STORIES[case.name]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        begin = time.perf_counter()
        _tune(root / file, root / PICTURES, target, out, Path(folder) / "home")
        seconds = time.perf_counter() - begin
        result = json.loads((out / "result.json").read_text())
        graph = case.graph(root)
        data = case.open(graph, root)
        labels = {name: np.stack([sample.labels[name] for sample in data.samples]) for name in data.samples[0].labels}
        model = load_float(graph)
        floats = _stacked([dict(model.run(sample.inputs)) for sample in data.samples])
        bundle = _deployed(out / "bundle", data.samples)
        for metric in data.metrics:
            scores = (metric.score(outputs, labels) for outputs in (floats, bundle))
            yield Story(
                case.name,
                kind,
                target,
                seconds,
                str(result["verdict"]),
                len(result["culprits"]) + len(result["companions"]),
                metric.name,
                len(data.samples),
                *scores,
            )


def _tune(model: Path, pictures: Path, target: str, out: Path, home: Path) -> None:
    home.mkdir()
    program = [sys.executable, "-c", "import sys; from dovetail.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    command = ["tune", str(model), "--data", str(pictures), "--target", target, "-o", str(out)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    done = subprocess.run([*program, *command], env={**kept, "HOME": str(home)}, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _deployed(bundle: Path, samples: Sequence[Sample]) -> dict[str, np.ndarray]:
    """Return what a bundle computes of samples."""
    with dovetail.open_session(dovetail.load_bundle(bundle)) as session:
        return _stacked([dict(session.run(sample.inputs).outputs) for sample in samples])


def _stacked(runs: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}


def _page(found: Sequence[Story], rows: Sequence[Sequence[str]]) -> str:
    times = {(story.model, story.target): story.seconds for story in found}
    within = sum(seconds <= GOAL_S for seconds in times.values())
    return f"""# A detector, twenty pictures, no labels

Made by `python benchmarks/stories.py --page`; do not edit. The models and pictures are a collection that is not part
of this repository.

{"; ".join(machine.facts())}

What is typed is `dovetail tune MODEL --data {PICTURES}/ --target TARGET`, in a home where nothing is remembered and
without the vendor's SDK: what the outputs are, how pictures become inputs, and what is compared is found by itself.
*seconds* are from the command to its end, {GOAL_S:.0f} are the goal: {within} of {len(times)} are within it.
Then labels judge, of which the search knew nothing: the float model, and the bundle in the board's exact arithmetic,
on twenty labelled pictures, eleven of which are among the twenty of the search. Where it ends with "missed", eight
pictures that the search never saw do not show the goal.

{markdown(_HEADS, rows)}
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append")
    parser.add_argument("--model", action="append")
    parser.add_argument("--page", nargs="?", type=Path, const=_PAGE)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
