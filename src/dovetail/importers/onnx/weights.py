"""Refuse constants that no computation can mean: NaN anywhere, infinity in weights."""

from __future__ import annotations

import numpy as np

from dovetail.errors import LoadError
from dovetail.importers.onnx.reader import OnnxSource, node_label

_WEIGHTED = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (1, 2),
    "MatMul": (0, 1),
    "LSTM": (1, 2, 3),
    "GRU": (1, 2, 3),
}
"""Operators whose constant inputs at these places are weights. Elsewhere infinity is legitimate, as in a mask."""


def check_values(source: OnnxSource) -> None:
    """Raise LoadError when a constant holds NaN, or a weight holds infinity; the message names it."""
    for name, stored in source.constants.items():
        if stored.dtype.is_float and np.isnan(stored.array).any():
            raise LoadError(
                f"{source.where}: constant '{name}' holds NaN.",
                hint="The training diverged; use an earlier checkpoint.",
            )
    for node in source.graph.node:
        for index in _WEIGHTED.get(node.op_type, ()) if not node.domain else ():
            name = node.input[index] if index < len(node.input) else ""
            stored_weight = source.constants.get(name)
            if stored_weight is None or not stored_weight.dtype.is_float:
                continue
            if not np.isfinite(stored_weight.array).all():
                raise LoadError(
                    f"{source.where}: weight '{name}' of {node_label(node)} holds infinity.", source_node=node.name
                )
