"""What a person may ask of an import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dovetail.errors import LoadError
from dovetail.passes import PassOptions

_MOST_SIZE = (1 << 31) - 1
"""Of one axis: what formats of models and compilers count in 32 bits."""


def _silent(_what: str, _share: float) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a model of another framework becomes ONNX, in an environment of its own (`dovetail env list`).

    `inputs` and `outputs` name the tensors between which a TensorFlow model is taken, `submodule` the part of a
    TorchScript module. `progress` hears what is being done and the share that is done.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    submodule: str = ""
    limit_s: float = 900.0
    progress: Callable[[str, float], None] = field(default=_silent, compare=False)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to read a model.

    `shapes` fixes the sizes of graph inputs: `{"input": (1, 3, 224, 224)}`; LoadError for sizes that no tensor has.
    `values` makes inputs of one number constants: `{"sr": 16000}`, after which branches that they decide are gone; ONNX
    and what is converted to it only.
    `max_file_bytes` bounds what is read, `max_fold_bytes` what one folded constant may add.
    `exact_hybrid` keeps what kernels of float data and integer weights compute, data quantised as it runs (TFLite's
    hybrid ones, ONNX Runtime's quantize_dynamic); without it their weights become floats, which is what a plan for an
    NPU starts from.
    `passes` are those that make its normal form, where what reads it makes one.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)
    max_file_bytes: int = 2 * 1024**3
    max_fold_bytes: int = 16 * 1024**2
    exact_hybrid: bool = True
    conversion: Conversion = field(default_factory=Conversion)
    passes: PassOptions = field(default_factory=PassOptions)

    def __post_init__(self) -> None:
        for name, shape in self.shapes.items():
            if any(size > _MOST_SIZE for size in shape):
                raise LoadError(
                    f"input '{name}': no tensor has the shape {list(shape)}.", hint=f"A size is at most {_MOST_SIZE}."
                )
