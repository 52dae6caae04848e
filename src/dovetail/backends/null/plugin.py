"""The plug-in: accepts every node and answers zeros."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail._version import __version__
from dovetail.backend.arithmetic import EXACT, Arithmetic
from dovetail.backend.protocols import (
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    ExecutableAbilities,
    Signature,
)
from dovetail.backend.target import Engine, Target, TargetVerdict
from dovetail.backends.feeds import Sizes, check_feeds, same_signature
from dovetail.errors import BundleError, DeviceError
from dovetail.ir import AnyArray, Graph, Node, TensorType, graph_from_bytes, graph_to_bytes
from dovetail.ir.precision import Precision

FORMAT = "null"


@dataclass(frozen=True, slots=True)
class NullTarget:
    """Accept every node at every precision."""

    name: str = "null"
    title: str = "Nothing (zeros)"
    precisions: tuple[Precision, ...] = tuple(Precision)
    arithmetic: Arithmetic = EXACT
    mark: str = ""

    def verdict(self, graph: Graph, node: Node, precision: Precision) -> TargetVerdict:
        """Accept the node."""
        return TargetVerdict(node.name, node.op, self.name, precision, Engine.CPU)


NULL = NullTarget()


class NullBackend:
    """Compile to the types of the tensors and answer zeros."""

    name = "null"

    @property
    def version(self) -> str:
        """Return the version of the package."""
        return __version__

    def targets(self) -> Sequence[Target]:
        """Return the one target, `null`."""
        return (NULL,)

    def compile(self, graph: Graph, target: Target, options: CompileOptions) -> Blob:
        """Return the graph's inputs and outputs as a graph without nodes."""
        kinds = {name: graph.types[name] for name in dict.fromkeys((*graph.inputs, *graph.outputs))}
        # The outputs become inputs too: a graph without nodes can only hand on what it gets.
        given = tuple(kinds)
        shell = Graph(str(len(graph.inputs)), (), given, graph.outputs, kinds)
        return Blob(FORMAT, graph_to_bytes(shell))

    def abilities(self) -> BackendAbilities:
        """Return what it can do besides."""
        return BackendAbilities(options=frozenset({"threads"}), compiles_in_process=lambda target: True)

    def devices(self) -> Sequence[Device]:
        """Return the one device."""
        return (NullDevice(),)


class NullDevice:
    """Run nothing."""

    name = "null"

    def accepts(self, target: str) -> bool:
        """Tell whether the target is `null`."""
        return target == NULL.name

    def load(self, blob: Blob, signature: Signature) -> Executable:
        """Read the types back; raise DeviceError when the blob is damaged or made for something else."""
        if blob.format != FORMAT:
            raise DeviceError(f"null: a blob of format '{blob.format}' is not for this device.")
        try:
            shell = graph_from_bytes(blob.payload, "the blob")
            count = int(shell.name)
        except (BundleError, ValueError) as error:
            raise DeviceError(f"null: the blob is damaged: {error}", hint="Compile the model again.") from error
        same_signature("null", signature, {name: shell.types[name] for name in shell.inputs[:count]}, shell.outputs)
        return _Zeros(signature)


class _Zeros:
    def __init__(self, signature: Signature) -> None:
        self._signature: Signature | None = signature

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return zeros for every output; sizes with a name are those of the inputs."""
        if self._signature is None:
            raise DeviceError("null: the executable is closed.")
        sizes = check_feeds("null", self._signature, inputs)
        inside = [tap for tap in taps if tap not in self._signature.outputs]
        if inside:
            raise DeviceError(f"null: tensor '{inside[0]}' is not computed here, so it cannot be tapped.")
        return {name: _zeros(kind, sizes) for name, kind in self._signature.outputs.items()}

    def close(self) -> None:
        """Refuse further runs."""
        self._signature = None

    def abilities(self) -> ExecutableAbilities:
        """Return none beyond running."""
        return ExecutableAbilities()


def _zeros(kind: TensorType, sizes: Sizes) -> AnyArray:
    """Return stored zeros; a size that no input tells is 1."""
    shape = [dim if isinstance(dim, int) else sizes.get(dim, 1) if dim else 1 for dim in kind.shape or ()]
    return np.zeros(shape, kind.dtype.carrier)


backend: Backend = NullBackend()
