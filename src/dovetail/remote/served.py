"""A model that any server of the Open Inference Protocol has under a name, whoever made the two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.errors import DeviceError, RemoteError
from dovetail.ir.dtypes import AnyArray, DType
from dovetail.ir.types import TensorType
from dovetail.oip.datatypes import DATATYPES, dtype_named
from dovetail.oip.messages import Message, calls
from dovetail.oip.tensors import add_inputs, outputs_of
from dovetail.remote.connection import Connection

_ASK_S = 30.0


class NamedModel:
    """A model that a server has by itself: what it says of it, and runs by name.

    Only calls that every server of the protocol has are used (ModelReady, ModelMetadata, ModelInfer), so that it may
    be Triton, MLServer or KServe as well. Raises RemoteError where the server has no such model.
    """

    def __init__(self, connection: Connection, name: str, version: str = "", *, run_s: float = 120.0) -> None:
        self.name, self.version = name, version
        self._connection, self._run_s = connection, run_s
        ready = calls()["ModelReady"].request(name=name, version=version)
        if not connection.ask("ModelReady", ready, _ASK_S).ready:
            raise RemoteError(f"{connection.url}: model '{name[:80]}' is not ready.", hint="Is it loaded there?")
        asked = calls()["ModelMetadata"].request(name=name, version=version)
        told = connection.ask("ModelMetadata", asked, _ASK_S)
        self.platform: str = told.platform
        """What the server says that runs it."""
        self.inputs: Mapping[str, TensorType] = self._types(told.inputs)
        """Empty where the server declares none."""
        self.outputs: Mapping[str, TensorType] = self._types(told.outputs)

    def run(self, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """Return the outputs by name, in the element types of the server's answer.

        Raises DeviceError for inputs that the model does not declare, or of another type.
        """
        request = calls()["ModelInfer"].request(model_name=self.name, model_version=self.version)
        add_inputs(request, inputs, {name: self._input(name, array) for name, array in inputs.items()})
        for name in self.outputs:
            request.outputs.add(name=name)
        answer = self._connection.ask("ModelInfer", request, self._run_s)
        found = outputs_of(answer, self._types(answer.outputs))
        missing = [name for name in self.outputs if name not in found]
        if missing:
            raise RemoteError(f"{self._connection.url}: the answer has no '{missing[0]}'.")
        return found

    def _input(self, name: str, array: AnyArray) -> TensorType:
        """Return the type of an input: as declared, or that of the array."""
        if not self.inputs:
            try:
                kind = DType.of(array.dtype)
            except KeyError as error:
                unnamed = f"{self.name}: input '{name[:80]}' is {array.dtype}, which has no name in the protocol."
                raise DeviceError(unnamed) from error
            return TensorType(kind, array.shape)
        declared = self.inputs.get(name)
        if declared is None:
            hint = f"The model reads: {', '.join(self.inputs)}."
            raise DeviceError(f"{self.name}: input '{name[:80]}' is unknown.", hint=hint)
        if declared.dtype.carrier != array.dtype:
            raise DeviceError(f"{self.name}: input '{name}' is {array.dtype}; {declared.dtype.carrier} is expected.")
        return declared

    def _types(self, tensors: Iterable[Message]) -> dict[str, TensorType]:
        """Return the types that a message names; sizes of -1 are open."""
        types: dict[str, TensorType] = {}
        for tensor in tensors:
            kind = dtype_named(tensor.datatype)
            if kind is None:
                raise RemoteError(
                    f"{self._connection.url}: '{tensor.name[:80]}' of model '{self.name}' is {tensor.datatype[:20]}.",
                    hint=f"Tensors are of {', '.join(DATATYPES.values())}.",
                )
            types[tensor.name] = TensorType(kind, tuple(size if size >= 0 else None for size in tensor.shape))
        return types
