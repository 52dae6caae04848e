"""Which passes make the normal form, in the words of TVM's `PassContext`: a level, and passes that are left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dovetail.errors import DovetailError, suggestion
from dovetail.passes.activations import FuseHardSwish
from dovetail.passes.affine import FoldAffine, FoldBatchNorm, MatMulToGemm
from dovetail.passes.base import Pass
from dovetail.passes.moves import FoldPad, RemoveDeadCode, RemoveNoOps
from dovetail.passes.pools import WidenPools

NORMAL_FORM: tuple[Pass, ...] = (
    RemoveDeadCode(),
    RemoveNoOps(),
    FoldPad(),
    WidenPools(),
    FuseHardSwish(),
    MatMulToGemm(),
    FoldBatchNorm(),
    FoldAffine(),
    RemoveDeadCode(),
)
HIGHEST_LEVEL = 3
LEVELS: Mapping[str, int] = {
    "remove-dead-code": 1,
    "remove-no-ops": 1,
    "fold-pad": 2,
    "widen-pools": 2,
    "fuse-hard-swish": 2,
    "matmul-to-gemm": 2,
    "fold-batchnorm": 3,
    "fold-affine": 3,
}
"""The lowest level that has a pass: what is not computed goes first, then operators are joined, then weights change."""
OF_TVM: Mapping[str, tuple[str, ...]] = {
    "DeadCodeElimination": ("remove-dead-code",),
    "SimplifyExpr": ("remove-no-ops",),
    "FoldExplicitPadding": ("fold-pad",),
    "SimplifyInference": ("fold-batchnorm",),
    "FoldScaleAxis": ("fold-batchnorm", "fold-affine"),
}
"""Names of TVM's passes, and what does their work here."""
_ELSEWHERE: Mapping[str, str] = {
    "AlterOpLayout": "layouts are chosen by compilers of NPUs",
    "ConvertLayout": "layouts are chosen by compilers of NPUs",
    "FoldConstant": "constants are folded as the file is read, since plans are made for what runs",
    "FuseOps": "operators that a target runs as one are units of a plan; nothing is rewritten",
}
"""Passes of TVM's that have no counterpart, and why."""


@dataclass(frozen=True, slots=True)
class PassOptions:
    """Which passes are applied; raises DovetailError for a level or a name that there is not."""

    opt_level: int = HIGHEST_LEVEL
    disabled_pass: tuple[str, ...] = ()
    """Names as here or as TVM's."""

    def __post_init__(self) -> None:
        if not 0 <= self.opt_level <= HIGHEST_LEVEL:
            raise DovetailError(
                f"level {self.opt_level} of passes: 0 to {HIGHEST_LEVEL} are known.",
                hint=f"0 applies none, {HIGHEST_LEVEL} all.",
                option="opt_level",
            )
        for name in self.disabled_pass:
            _ours(name)

    @property
    def passes(self) -> tuple[Pass, ...]:
        """Return the passes, in the order in which they are applied."""
        disabled = {name for text in self.disabled_pass for name in _ours(text)}
        return tuple(_chosen(self.opt_level, disabled))


def _chosen(level: int, disabled: Iterable[str]) -> Iterable[Pass]:
    return (step for step in NORMAL_FORM if LEVELS[step.name] <= level and step.name not in disabled)


def _ours(name: str) -> tuple[str, ...]:
    """Return the passes of a name; raise DovetailError for one that there is not."""
    if name in LEVELS:
        return (name,)
    if name in OF_TVM:
        return OF_TVM[name]
    if name in _ELSEWHERE:
        raise DovetailError(
            f"TVM's pass '{name}' has no counterpart: {_ELSEWHERE[name]}.", hint="Leave it out.", option="disabled_pass"
        )
    raise DovetailError(
        f"there is no pass '{name}'.", hint=suggestion(name, [*LEVELS, *OF_TVM]), option="disabled_pass"
    )
