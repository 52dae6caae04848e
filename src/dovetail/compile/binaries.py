"""The vendors' binaries inside a bundle, with what a program on a board has to know to feed them."""

from __future__ import annotations

import json
import re

from dovetail.backend.protocols import VendorBinary
from dovetail.backend.registry import backend
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.errors import DeviceError, DovetailError
from dovetail.ir.types import TensorType

RECORD = "networks.json"
_KIND = "dovetail-networks"


def vendor_files(bundle: Bundle) -> dict[str, bytes]:
    """Return the vendors' binaries of a bundle by file name, and `networks.json` about them.

    The record has the partitions in the order in which they run; one without a file is run by other means. Tensors
    stand in the binary's own order, shapes slowest dimension first, scales and zero points as they are stored.
    Raises DovetailError when no partition holds a binary, DeviceError for a damaged one.
    """
    files: dict[str, bytes] = {}
    rows: list[dict[str, object]] = []
    for index, part in enumerate(bundle.partitions):
        binary = _binary(part, index)
        row: dict[str, object] = {"partition": index, "target": part.target}
        inputs, outputs = part.inputs, part.outputs
        if binary is not None:
            name = f"{index}-{re.sub(r'[^a-z0-9]+', '-', part.target.lower())}{binary.suffix}"
            files[name] = binary.content
            row["file"] = name
            inputs, outputs = binary.inputs, binary.outputs
        for side, names in (("inputs", inputs), ("outputs", outputs)):
            row[side] = [_tensor(bundle, tensor, part.tensors[tensor]) for tensor in names]
        rows.append(row)
    if not files:
        targets = ", ".join(dict.fromkeys(part.target for part in bundle.partitions))
        raise DovetailError(
            f"bundle '{bundle.name}': no partition holds a vendor's binary (it runs on {targets}).",
            hint="Compile with a backend that makes one, such as 'vsi' for its targets.",
            option="backend",
        )
    files[RECORD] = (json.dumps({"kind": _KIND, "model": bundle.name, "networks": rows}, indent=1) + "\n").encode()
    return files


def _binary(part: CompiledPartition, index: int) -> VendorBinary | None:
    vendor_binary = backend(part.backend).abilities().vendor_binary
    if vendor_binary is None:
        return None
    try:
        return vendor_binary(part.blob)
    except DeviceError as error:
        raise DeviceError(f"partition {index}: {error.message}", hint=error.hint) from error


def _tensor(bundle: Bundle, name: str, kind: TensorType) -> dict[str, object]:
    facts: dict[str, object] = {
        "name": name,
        "source_name": bundle.origins.get(name, name),
        "dtype": kind.dtype.value,
        "shape": None if kind.shape is None else list(kind.shape),
    }
    if kind.quant is not None:
        quant = kind.quant
        facts |= {"scale": list(quant.scale), "zero_point": list(quant.zero_point), "axis": quant.axis}
    return facts
