"""What a fit is asked, as a frozen dataclass of plain values: it can be printed, logged and sent elsewhere.

Every default of the whole chain is here; the command line adds none of its own but the folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from dovetail.data.preprocess import Preprocess
from dovetail.data.split import SplitOptions
from dovetail.errors import SearchError
from dovetail.importers.options import LoadOptions
from dovetail.quantize.calibrate import CalibrationOptions
from dovetail.search.vendor import VendorCheck

Place: TypeAlias = str | Path
"""A file or a folder."""

AUTO = "auto"
"""Preprocessing that the model states, else the likeliest of the usual ways."""

LIKELY, SURE = POLICIES = ("likely", "sure")
"""Which verdicts do: what is likely met too, or only what is met for sure."""


@dataclass(frozen=True, slots=True)
class CalibrationRequest:
    """Where ranges come from."""

    data: Place | None = None
    """Samples for the ranges only; None takes those that the search may see."""
    limit: int | None = None
    """Only the first so many of them."""
    options: CalibrationOptions = field(default_factory=CalibrationOptions)


@dataclass(frozen=True, slots=True)
class PriceRequest:
    """What prices plans, and how far the search for the cheapest goes."""

    tables: tuple[Place, ...] = ()
    """Files of measured latencies, the best first; they come before rooflines."""
    host: str | None = None
    """The CPU beside the NPU; None takes the one on the target's chip."""
    migrates: bool = True
    """Units without fault may leave the NPU where that is cheaper."""
    proof_tests: int | None = None
    """Plans that may be tested beyond those of the search; None goes by the size of the graph."""
    vendor_s: float = 20.0
    """Time that a vendor's performance model may take for the prices of units, where one is here; 0 asks none."""


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """Where plans are evaluated; without processes and without a cluster, here."""

    processes: int = 0
    """Processes of this machine."""
    dask: str | None = None
    """Address of a Dask scheduler, or its scheduler file."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """What a worker of the cluster must have, such as one `npu`."""
    timeout_s: float | None = None
    """Longest time of one evaluation; only other processes can be stopped."""
    retries: int = 0
    """How often a plan that cannot be tested is tried again."""

    def __post_init__(self) -> None:
        if self.processes < 0 or self.retries < 0:
            raise SearchError("a number of worker processes or of retries is 0 or more.", option="workers")
        most = max(64, 4 * (os.cpu_count() or 1))
        if self.processes > most:
            raise SearchError(
                f"{self.processes} worker processes are more than this machine can use.",
                hint=f"Give at most {most}; a Dask cluster takes more.",
                option="workers",
            )
        if self.dask is not None and self.processes:
            raise SearchError("plans are evaluated either in processes or on a Dask cluster.", option="dask")
        if self.resources and self.dask is None:
            raise SearchError("only workers of a Dask cluster have resources.", option="dask")
        for name, amount in self.resources.items():
            if not 0 < amount < float("inf"):
                raise SearchError(f"{amount:g} of {name} is nothing to ask of a worker.", option="resources")
        if self.timeout_s is None:
            return
        if not 0 < self.timeout_s < float("inf"):
            raise SearchError(
                f"{self.timeout_s:g} s is no time for an evaluation.", hint="Give more than 0.", option="trial_timeout"
            )
        if self.dask is None and not self.processes:
            raise SearchError("a time limit can stop only other processes.", hint="Add one.", option="workers")


@dataclass(frozen=True, slots=True)
class BoardRequest:
    """The board that the answer runs on before it is accepted."""

    name: str
    """Address (`grpc://host:port`), or a name that `dovetail board add` gave it; a Dask scheduler (`tcp://host:port`,
    or its file) stands for the boards of its farm."""
    runs: int = 20
    """How often it is timed there."""

    def __post_init__(self) -> None:
        if not 1 <= self.runs <= 100_000:
            raise SearchError(f"{self.runs} runs on a board: it is timed by 1 to 100,000.", option="runs")


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What is fitted, to what, and how well."""

    model: Place
    """Model file of any known format; a quantised one is taken as the float model that it stands for."""
    data: Place
    """Samples: an .npz (`file.npz#array` names one); a folder of .npy files, images, videos or sounds; one of these."""
    target: str = "vsi:v853"
    _: KW_ONLY
    load: LoadOptions = field(default_factory=LoadOptions)
    labels: Place | None = None
    """Labels beside the samples (CSV or JSON)."""
    preprocess: Place | Preprocess | None = None
    """How images become tensors, or the TOML file that says it; `auto` finds it, which None does for pictures and
    videos too."""
    metric: str | None = None
    """Name, or `file.py:function`; None is top1 where samples have labels, else `decisions`: agreement with float's."""
    decisions: str | None = None
    """What outputs decide: `boxes=bbox_*,scores=cls_*,kind=detection`, or a TOML file; None recognises it."""
    max_drop: str = "1%"
    """Allowed loss: `0.01` of the metric, or `1%` of the float score."""
    min_score: float | None = None
    """Least score, of the float model too."""
    policy: str = LIKELY
    """Which verdicts do: `likely` takes "met" and "likely met", `sure` only "met"."""
    anyway: bool = False
    """Go on with so few samples that nothing should be accepted on them."""
    repairs: str = "all"
    """What may be healed before anything is raised: `all`, `data` (float stays on the samples), `exact`, `none`, or
    kinds joined by commas; one with a minus is left out."""
    low: str | None = None
    """Precision where the search starts; None is the first 8-bit one that the target prefers."""
    toolchain: str | None = None
    """Whose file the plan is for (acuity, onnxruntime, paddle, openvino, tflite, rknn, or a format's name): only what
    that file can say, and its reader obeys, is tried, and nothing is repaired."""
    listing: Place | None = None
    """The toolchain's own list of the network, where its format needs one."""
    ladder: tuple[str, ...] = ("i16",)
    """What culprits are raised to, cheapest first: precisions of the target, or TARGET@PRECISION; float comes last."""
    recipe: Place | None = None
    """Recipe (TOML) whose rules pin nodes and whose limits bound the plan."""
    split: SplitOptions = field(default_factory=SplitOptions)
    calibration: CalibrationRequest = field(default_factory=CalibrationRequest)
    price: PriceRequest = field(default_factory=PriceRequest)
    workers: WorkerRequest = field(default_factory=WorkerRequest)
    vendor: VendorCheck | None = None
    """Run a plan on the vendor's own simulator too before it is accepted."""
    board: BoardRequest | None = None
    """Run the answer on a board too, on the hold-out: what it gives there has to meet the goal, and is timed."""
    backends: Mapping[str, str] = field(default_factory=dict)
    """Which backend compiles a target's part of the bundle, where several could; the search goes by simulation."""
    search_s: float | None = 120.0
    """Time of evaluations after which the best plan so far is the answer; None sets no limit."""
    confirm: int = 0
    """How often the plan and its evidence are evaluated again in the end."""
    folder: Place | None = None
    """Folder of the search, which a killed one goes on from; None keeps nothing."""
    overwrite: bool = False
    """Replace what the folder has: the answer to another question, files that were edited."""
    journal: Place | None = None
    """Journal; None is `journal.sqlite` in the folder."""
    log: Place | None = None
    """Log that `replay_fit` reads (JSON lines)."""

    def __post_init__(self) -> None:
        if self.confirm < 0:
            raise SearchError("an answer is confirmed 0 times or more.", option="confirm")
        if self.search_s is not None and not 0 < self.search_s < float("inf"):
            raise SearchError(
                f"{self.search_s:g} s is no time for a search.", hint="Write 0 for no limit.", option="search_seconds"
            )
        for name, path in (("journal", self.journal), ("log", self.log)):
            if path is not None and not Path(path).absolute().parent.is_dir():
                raise SearchError(f"{path}: its folder does not exist.", hint="Make it first.", option=name)
        if self.policy not in POLICIES:
            raise SearchError(f"'{self.policy}' is no policy.", hint="Write likely or sure.", option="policy")

    @property
    def journal_path(self) -> Path | None:
        """Return where the journal is kept."""
        if self.journal is not None:
            return Path(self.journal)
        return None if self.folder is None else Path(self.folder) / "journal.sqlite"

    @property
    def migrates(self) -> bool:
        """Tell whether units without fault may leave the NPU: a toolchain's float is not the CPU that is priced."""
        return self.price.migrates and self.toolchain is None

    def for_log(self) -> FitRequest:
        """Return what the answer depends on, with files by their full paths: it can be asked from another folder."""
        price, calibration = self.price, self.calibration
        file, colon, function = (self.metric or "").rpartition(":")
        return replace(
            self,
            model=_full(self.model),
            data=_full(self.data),
            labels=_full(self.labels),
            preprocess=self.preprocess if isinstance(self.preprocess, Preprocess) else _full(self.preprocess, AUTO),
            decisions=_full_hints(self.decisions),
            recipe=_full(self.recipe),
            listing=_full(self.listing),
            metric=f"{_full(file)}:{function}" if colon else self.metric,
            calibration=replace(calibration, data=_full(calibration.data)),
            price=replace(price, tables=tuple(_full(path) for path in price.tables)),
            workers=WorkerRequest(),
            board=None,
            backends={},
            folder=None,
            overwrite=False,
            journal=None,
            log=None,
        )


_P = TypeVar("_P", Place, Place | None)


def _full(path: _P, word: str = "") -> _P:
    return path if path is None or path == word else str(Path(path).absolute())


def _full_hints(text: str | None) -> str | None:
    """Return a line of hints as it is, a file by its full path."""
    return text if text is None or "=" in text else str(_full(text))
