"""Turn what a file or a caller gives into the inputs of one sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dovetail.data.conform import conform
from dovetail.data.image import Placement2d, image_of, place
from dovetail.data.preprocess import Preprocess
from dovetail.data.sample import InputSpec
from dovetail.data.source import hash_text
from dovetail.data.tensor import to_tensor
from dovetail.errors import DataError


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the model wants and how raw pixels get there."""

    inputs: tuple[InputSpec, ...]
    preprocess: Preprocess | None = None

    def __post_init__(self) -> None:
        if not self.inputs:
            raise DataError("the model has no input that needs data.")
        if len({spec.name for spec in self.inputs}) != len(self.inputs):
            raise DataError("two inputs of the model have the same name.")
        if self.preprocess is not None and len(self.inputs) > 1:
            raise DataError(
                f"a preprocess file serves a model with one input, this one has {len(self.inputs)}.",
                hint="Give arrays that are ready for the model.",
            )

    def digest(self) -> str:
        """Hash the fields; `repr` of these frozen values is stable."""
        specs = [f"{spec.name!r} {spec.dtype.str} {spec.shape}" for spec in self.inputs]
        return hash_text([*specs, repr(self.preprocess)])

    def single(self, what: str) -> InputSpec:
        """Return the only input.

        Raises DataError when there are several.
        """
        if len(self.inputs) > 1:
            names = ", ".join(repr(spec.name) for spec in self.inputs)
            raise DataError(f"{what} serves a model with one input, this one has {names}.")
        return self.inputs[0]

    def inputs_of(self, arrays: Mapping[str, NDArray[Any]], sample_id: str) -> dict[str, NDArray[Any]]:
        """Conform one array for each input; pixels go through the preprocess steps first.

        Raises DataError naming the sample and the input.
        """
        missing = [spec.name for spec in self.inputs if spec.name not in arrays]
        if missing:
            found = ", ".join(map(repr, arrays)) or "none"
            raise DataError(f"sample {sample_id!r}: input {missing[0]!r} is missing; found {found}.")
        return {spec.name: self._tensor(arrays[spec.name], spec, sample_id)[0] for spec in self.inputs}

    def _tensor(self, array: NDArray[Any], spec: InputSpec, sample_id: str) -> tuple[NDArray[Any], Placement2d]:
        if self.preprocess is None:
            return conform(array, spec, sample_id), Placement2d()
        where = f"sample {sample_id!r}, input {spec.name!r}"
        image, placement = place(image_of(array, self.preprocess.channels, where), self.preprocess, where)
        return conform(to_tensor(image, self.preprocess, spec, where), spec, sample_id), placement
