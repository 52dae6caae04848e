"""What a model wants at its inputs."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.data.sample import InputSpec
from dovetail.errors import DataError
from dovetail.ir.graph import Graph
from dovetail.ir.types import TensorType


def specs_of(source: Graph | Mapping[str, TensorType]) -> tuple[InputSpec, ...]:
    """Return what a graph, or inputs of these types, want; raise DataError for an input of unknown rank."""
    inputs = {name: source.types[name] for name in source.inputs} if isinstance(source, Graph) else source
    specs: list[InputSpec] = []
    for name, kind in inputs.items():
        if kind.shape is None:
            raise DataError(
                f"input '{name}' has no known rank.", hint="Fix its shape when the model is loaded.", option="shape"
            )
        shape = tuple(dim if isinstance(dim, int) else None for dim in kind.shape)
        specs.append(InputSpec(name, kind.dtype.carrier, shape))
    return tuple(specs)
