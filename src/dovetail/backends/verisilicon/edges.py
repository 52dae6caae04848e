"""What goes into a program and comes out, against what a caller expects."""

from __future__ import annotations

from dovetail.backend.protocols import Signature
from dovetail.backends.feeds import same_signature
from dovetail.backends.verisilicon.program import Program
from dovetail.backends.verisilicon.translate import real_form
from dovetail.errors import DeviceError

_AGAIN = "Compile the model again."


def check_edges(where: str, program: Program, signature: Signature) -> None:
    """Raise DeviceError where a program has other inputs or outputs than the caller expects."""
    kinds = {name: signature.inputs.get(name) for name, _ in program.inputs}
    known = {name: kind for name, kind in kinds.items() if kind is not None}
    same_signature(where, signature, known if len(known) == len(kinds) else {}, [name for name, _ in program.outputs])
    for name, tensor in (*program.inputs, *program.outputs):
        kind = signature.inputs.get(name) or signature.outputs[name]
        form, shape = program.tensors[tensor].form, program.tensors[tensor].shape
        quant = real_form(form)
        if (quant is None) is not (kind.quant is None) or (quant is not None and quant != kind.quant):
            raise DeviceError(f"{where}: '{name}' was compiled with another scale.", hint=_AGAIN)
        sizes = [1 if index == 0 and isinstance(dim, str) else dim for index, dim in enumerate(kind.shape or ())]
        if list(reversed(shape)) != (sizes or [1]):
            raise DeviceError(f"{where}: '{name}' was compiled with shape {list(reversed(shape))}.", hint=_AGAIN)
