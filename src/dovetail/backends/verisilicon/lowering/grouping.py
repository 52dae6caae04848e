"""What a convolution of groups reads of a reduction."""

from __future__ import annotations

from dovetail.backends.verisilicon.lowering.view import NodeView

_REDUCTIONS = frozenset({"pool2d", "reduce"})


def copied_for_groups(view: NodeView, data: int) -> int:
    """Return the input of a convolution of groups; what a reduction made of it is copied first.

    The vendor's compiler cuts the tensor into its groups where it lies, and takes those of a mean or a sum over planes
    for others: all groups but the first are garbage, at 16 bits and of unsigned bytes, measured on V853, A311D and
    i.MX 8M Plus. That the tensor stays in memory helps means alone.
    """
    makers = {tensor: operator for operator in view.draft.operators for tensor in operator.outputs}
    maker = makers.get(data)
    while maker is not None and maker.kind == "reshape":
        maker = makers.get(maker.inputs[0])
    if maker is None or maker.kind not in _REDUCTIONS:
        return data
    made = view.alike(data)
    view.emit("data_convert", (data,), (made,))
    return made
