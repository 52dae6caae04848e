"""How long a newcomer takes from `git clone` to a report in a browser, by the commands that README.md shows.

python benchmarks/newcomer.py [--rounds N] [--python PROGRAM ...] [--page [FILE]]

Each round has a home, a cache and a clone of its own, which are taken away afterwards. What README.md says is read from
the clone, so that the record cannot drift. With the collected models it goes the second way of README.md, too: a model
and a folder of pictures of one's own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import zoo.machine as machine
from zoo.browser import Opened, open_report
from zoo.catalogue import models_root
from zoo.table import markdown, text

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "reference" / "newcomer.md"
_GOAL_S = 180.0
_DEMO, _OWN = "Two commands", "Your own model"
_TUNE = r"`(dovetail tune \S+ --data \S+/ [^`]*)`"
_REPORT = "dovetail-out/report.html"
_LIMIT_S = 1800.0
_HEADS = ("way", "Python", "round", "step", "seconds")
_SUMS = ("way", "Python", "rounds", "commands typed", "clone to report: median", "longest", "within the goal")
_BROWSER = (
    "way",
    "Python",
    "round",
    "what it says first",
    "first paint",
    "network drawn",
    "colours in it",
    "complaints",
)


@dataclass(frozen=True, slots=True)
class Step:
    """Something that a newcomer does, and how long it took."""

    said: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Fetched:
    """Where pip had packages from, counted in its log."""

    downloaded: int
    from_folders: int
    cached: int


@dataclass(frozen=True, slots=True)
class Walked:
    """One way gone once."""

    way: str
    python: str
    number: int
    steps: tuple[Step, ...]
    fetched: Fetched
    opened: Opened

    @property
    def seconds(self) -> float:
        """The whole way, with the browser."""
        return sum(step.seconds for step in self.steps)

    @property
    def is_good(self) -> bool:
        """Whether it meets the goal: soon enough, and a report that is drawn without a complaint."""
        return self.seconds <= _GOAL_S and self.opened.colors > 1 and not self.opened.complaints

    @property
    def typed(self) -> int:
        """Commands that were typed."""
        return sum(step.said.startswith("$ ") for step in self.steps)


def shown_commands(readme: str, heading: str) -> list[tuple[str, str]]:
    """Return the commands of the first console block below a heading, each with its comment."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?^```console\n(.*?)^```", readme, re.M | re.S)
    if found is None:
        raise LookupError(f"README.md has no console block below '{heading}'")
    lines = (line.removeprefix("$ ").partition("#") for line in found[1].splitlines() if line.startswith("$ "))
    return [(command.strip(), comment.strip()) for command, _, comment in lines]


def demo_way(readme: str) -> tuple[list[str], str]:
    """Return the commands up to the one that is said to write a folder, and the report in that folder."""
    commands = []
    for command, comment in shown_commands(readme, _DEMO):
        commands.append(command)
        if written := re.search(r"writes (\S+)/", comment):
            return commands, f"{written[1]}/report.html"
    raise LookupError(f"no command below '{_DEMO}' is said to write a folder")


def own_way(readme: str) -> tuple[list[str], str]:
    """Return the commands for a model of one's own, with the tuning on a folder of pictures, and the report."""
    tune = re.search(_TUNE, readme)
    if tune is None:
        raise LookupError("README.md shows no tuning on a folder of pictures")
    return [*(command for command, _ in shown_commands(readme, _OWN)), tune[1]], _REPORT


def measure(options: argparse.Namespace) -> Iterator[Walked]:
    """Yield each way gone, so many times with each Python."""
    own = options.model.is_file() and options.pictures.is_dir()
    if not own:
        print(f"without {options.model} and {options.pictures} only the demo is measured", file=sys.stderr)
    # All of them before the first round, so that none is missed after an hour.
    for base in [_base(python) for python in options.python]:
        for number in range(1, options.rounds + 1):
            for way in (_DEMO, _OWN) if own else (_DEMO,):
                with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
                    yield _walk(way, number, Path(folder), base, options)


def _base(python: str) -> Path:
    """Return the folder of the Python that a virtual environment or a shim stands for."""
    return Path(_said([python, "-c", "import sys; print(sys.base_prefix)"], None)) / "bin"


def _walk(way: str, number: int, folder: Path, base: Path, options: argparse.Namespace) -> Walked:
    log, place = folder / "pip.log", folder / "dovetail"
    env = _fresh(folder, base, log)
    # By URL, so that git packs and copies as it does from elsewhere, and links no files.
    clone = ["git", "clone", "-q", _ROOT.as_uri(), str(place)]
    steps = [_timed("git clone", clone, folder, env)]
    readme = (place / "README.md").read_text(encoding="utf-8")
    commands, report = (demo_way if way == _DEMO else own_way)(readme)
    if way == _OWN:
        shutil.copy(options.model, place / "model.onnx")
        shutil.copytree(options.pictures, place / "photos")
        made = [str(base / "python3"), "-m", "venv", str(folder / "venv")]
        steps.append(_timed("python3 -m venv", made, place, env))
        env = {**env, "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}{env['PATH']}"}
    for command in commands:
        steps.append(_timed(command, shlex.split(command), place, env))
    opened = open_report(place / report)
    steps.append(Step(f"open {report}: start of the browser", opened.start_s))
    steps.append(Step(f"open {report}: until the network is drawn", opened.shown_s))
    version = _said([str(base / "python3"), "-c", "import platform; print(platform.python_version())"], None)
    return Walked(way, version, number, tuple(steps), fetched(log.read_text(encoding="utf-8")), opened)


def _fresh(folder: Path, base: Path, log: Path) -> dict[str, str]:
    """Return an environment in which nothing is there yet but the system's programs and pip's settings."""
    ours = {Path(sys.prefix) / "bin", Path(sys.executable).parent}
    path = [str(base), *(entry for entry in os.environ["PATH"].split(os.pathsep) if Path(entry) not in ours)]
    gone = ("PYTHON", "XDG_", "DOVETAIL", "VIRTUAL_ENV", "MAKE", "PIP_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    home = folder / "home"
    home.mkdir()
    return {**kept, "PATH": os.pathsep.join(path), "HOME": str(home), "PIP_LOG": str(log)}


def _timed(said: str, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Step:
    start = time.perf_counter()
    _said(command, env, folder)
    return Step(f"$ {said}", time.perf_counter() - start)


def _said(command: Sequence[str], env: Mapping[str, str] | None, folder: Path | None = None) -> str:
    # Found by the PATH of the newcomer, not by ours.
    program = shutil.which(command[0], path=None if env is None else env["PATH"])
    call = [program or command[0], *command[1:]]
    done = subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    # A search whose goal is missed ends with 1, and with a report that says so.
    if done.returncode not in (0, int(command[:2] == ["dovetail", "tune"])):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout.strip()


def fetched(log: str) -> Fetched:
    """Count in pip's log where packages came from."""
    lines = [line.partition(" ")[2].strip() for line in log.splitlines()]
    return Fetched(
        sum(line.startswith("Downloading ") and ".metadata" not in line for line in lines),
        sum(line.startswith("Processing ") and line.split()[1].endswith((".whl", ".tar.gz")) for line in lines),
        sum(line.startswith("Using cached ") and ".metadata" not in line for line in lines),
    )


def sums(rows: Sequence[Walked]) -> list[tuple[str, ...]]:
    """Return a line for each way and Python."""
    groups: dict[tuple[str, str], list[Walked]] = {}
    for row in rows:
        groups.setdefault((row.way, row.python), []).append(row)
    return [
        (
            *(*key, str(len(found)), str(found[0].typed), f"{median(row.seconds for row in found):.0f} s"),
            f"{max(row.seconds for row in found):.0f} s",
            f"{sum(row.is_good for row in found)} of {len(found)}" if key[0] == _DEMO else "-",
        )
        for key, found in groups.items()
    ]


def step_cells(rows: Sequence[Walked]) -> list[tuple[str, ...]]:
    """Return a line for each step."""
    return [
        (row.way, row.python, str(row.number), f"`{step.said}`", f"{step.seconds:.1f}")
        for row in rows
        for step in row.steps
    ]


def browser_cells(rows: Sequence[Walked]) -> list[tuple[str, ...]]:
    """Return a line for each report that was opened."""
    return [
        (
            *(row.way, row.python, str(row.number), row.opened.verdict, f"{row.opened.first_paint_ms:.0f} ms"),
            *(f"{row.opened.shown_s * 1e3:.0f} ms", str(row.opened.colors)),
            "; ".join(row.opened.complaints) or "none",
        )
        for row in rows
    ]


def page(rows: Sequence[Walked], options: argparse.Namespace) -> str:
    """Return the page."""
    came = [row.fetched for row in rows]
    lists = [
        f"{min(values)} to {max(values)}" for values in zip(*(asdict(item).values() for item in came), strict=True)
    ]
    arguments = "".join(f" --python {Path(python).name}" for python in options.python if python != sys.executable)
    own = ""
    if any(row.way == _OWN for row in rows):
        names = f"`{options.model.parent.name}/{options.model.name}`, `photos/` is `{options.pictures.name}`"
        own = f" `model.onnx` is {names} of the collection, which is not part of this repository."
    return f"""# A newcomer's way

Made by `python benchmarks/newcomer.py --rounds {options.rounds}{arguments} --page`; do not edit.

{"; ".join(machine.facts(("dovetail",)))}

From `git clone` to a report that a browser shows, by the commands that README.md has: *{_DEMO}* up to the one that
writes the folder, and *{_OWN}* with its `pip install`, its looks at the model, and the tuning on a folder of pictures
that README.md begins with. They are read from the README of the clone.{own}

- Fresh in every round: the clone, the folder it is in, the virtual environment, the home folder with pip's cache and
  all that Dovetail remembers, the browser's profile.
- There before: git, make, Python and Chromium; the repository, which is cloned from this disk and not over a network;
  what the system keeps of files that it read lately. Packages came as this machine is set up to get them; in a round
  pip downloaded {lists[0]}, took {lists[1]} from folders of the machine, and {lists[2]} from its cache.
- Nobody reads or types: what a person takes for that comes on top. Steps that start with `$` are typed.

The goal: two commands, and a report within {_GOAL_S:.0f} s that the browser paints without a complaint. A complaint is
anything that the console says, an error of the page, or a request for anything but the file itself. The goal is that of
*{_DEMO}*; for *{_OWN}*, which is longer and ends with whatever the search finds, there is none.

{markdown(_SUMS, sums(rows))}

## The report in the browser

Headless Chromium, 1200 x 900. *Colours* are counted in the drawing of the network: an empty one has one.

{markdown(_BROWSER, browser_cells(rows))}

## Every step

{markdown(_HEADS, step_cells(rows))}
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="how often each way is gone")
    parser.add_argument("--python", action="append", help="a Python to go it with; may be repeated")
    parser.add_argument("--model", type=Path, default=models_root() / "yolox_nano" / "yolox_nano.onnx")
    parser.add_argument("--pictures", type=Path, default=models_root() / "data_coco20")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", nargs="?", const=_PAGE, type=Path, metavar="FILE", help="write the page")
    options = parser.parse_args()
    options.python = options.python or [sys.executable]
    return options


def main() -> int:
    """Go the ways, and show or write what they took; the exit code is 1 where the demo's missed the goal."""
    options = _arguments()
    rows = []
    for row in measure(options):
        rows.append(row)
        print(f"{row.way}, round {row.number}: {row.seconds:.0f} s", file=sys.stderr, flush=True)
    if options.page is not None:
        options.page.write_text(page(rows, options), encoding="utf-8")
    elif options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        for heads, cells in ((_SUMS, sums(rows)), (_BROWSER, browser_cells(rows)), (_HEADS, step_cells(rows))):
            print(text(heads, cells), end="\n\n")
    return int(not all(row.is_good for row in rows if row.way == _DEMO))


if __name__ == "__main__":
    raise SystemExit(main())
