"""dovetail demo: the whole way on an embedded model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli.fitting import FitVerb
from dovetail.errors import DovetailError

if TYPE_CHECKING:
    from dovetail.fit import Fit, FitRequest
    from dovetail.report import Prose

_PARTS = ("digits.onnx", "calib.npz", "eval.npz", "metric.py")


@dataclass(frozen=True, kw_only=True)
class Demo(FitVerb):
    """Tune an embedded digit detector that 8 bits break.

    No board, no vendor account, no network. The folder has everything that `dovetail tune` writes.
    """

    def request(self) -> FitRequest:
        from dovetail.fit import CalibrationRequest, FitRequest

        folder = find_digits()
        return FitRequest(
            model=str(folder / "digits.onnx"),
            data=str(folder / "eval.npz"),
            calibration=CalibrationRequest(str(folder / "calib.npz")),
            metric=f"{folder / 'metric.py'}:score",
            low="i8pc",
            repairs="none",  # It shows what raising does; healing would leave one unit to raise.
            folder=str(self.output),
            overwrite=self.overwrite,
        )

    def story(self, fit: Fit) -> tuple[Prose, ...]:
        from dovetail.report.page import Prose

        result, holdout = fit.result, fit.result.holdout
        lines = [
            f"In float the detector is right on {holdout.float_score:.1%} of {holdout.samples} pictures.",
            f"With every layer at {result.low} it is right on {holdout.low:.1%}.",
        ]
        if result.culprits:
            units = ", ".join(item.unit for item in result.culprits)
            lines.append(f"{len(result.culprits)} of {result.unit_count} units break it: {units}.")
        score = holdout.tuned if holdout.tuned_exact is None else holdout.tuned_exact
        lines.append(
            f"With those raised it is right on {score:.1%} of pictures that the search never saw, in exact arithmetic."
        )
        return (Prose("What happened", tuple(lines)),)


def find_digits() -> Path:
    """Return the folder of the digit detector, in an installed package or in the repository; raise DovetailError."""
    package = Path(__file__).parents[1]
    places = (package / "examples" / "digits", package.parents[1] / "examples" / "digits")
    for place in places:
        if all((place / name).is_file() for name in _PARTS):
            return place
    raise DovetailError(
        f"the demo's model is missing: neither {places[0]} nor {places[1]} has it.",
        hint="Install Dovetail again, or run the demo from its repository.",
    )
