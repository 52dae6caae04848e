"""What a server says of itself and of its models, for both of its faces."""

from __future__ import annotations

import json
from importlib.metadata import version

from dovetail.ir.text import print_type
from dovetail.ir.types import TensorType
from dovetail.oip.datatypes import DATATYPES
from dovetail.serve.model import ServedModel
from dovetail.serve.statistics import Duration

PLATFORM = "dovetail_bundle"
EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics", "system_shared_memory")


def server_document() -> dict[str, object]:
    """Return name, version and extensions of the server."""
    return {"name": "dovetail", "version": version("dovetail"), "extensions": list(EXTENSIONS)}


def tensor_document(name: str, kind: TensorType) -> dict[str, object]:
    """Return name, type and shape of a tensor; -1 stands for any size, and for one of any rank."""
    shape = [-1] if kind.shape is None else [dim if isinstance(dim, int) else -1 for dim in kind.shape]
    return {"name": name, "datatype": DATATYPES[kind.dtype], "shape": shape}


def model_document(model: ServedModel) -> dict[str, object]:
    """Return the metadata of a model."""
    return {
        "name": model.name,
        "versions": ["1"],
        "platform": PLATFORM,
        "inputs": [tensor_document(name, kind) for name, kind in model.bundle.inputs.items()],
        "outputs": [tensor_document(name, kind) for name, kind in model.bundle.outputs.items()],
    }


def config_document(model: ServedModel) -> dict[str, object]:
    """Return the configuration of a model; `parameters` has types with scales, and the device of every partition."""
    types = {**model.bundle.inputs, **model.bundle.outputs}
    words = {f"type:{name}": print_type(kind) for name, kind in types.items()}
    words |= {"joined": f"no: {model.why_alone}" if model.why_alone else "yes"}
    words |= {"bundle": model.digest, "devices": json.dumps(model.session.devices)}
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "dovetail",
        "max_batch_size": 0,
        "input": [_dims(name, kind) for name, kind in model.bundle.inputs.items()],
        "output": [_dims(name, kind) for name, kind in model.bundle.outputs.items()],
        "parameters": {key: {"string_value": text} for key, text in words.items()},
    }


def _dims(name: str, kind: TensorType) -> dict[str, object]:
    told = tensor_document(name, kind)
    return {"name": name, "data_type": f"TYPE_{told['datatype']}", "dims": told["shape"]}


def statistics_document(model: ServedModel) -> dict[str, object]:
    """Return the statistics of a model."""
    known = model.statistics
    with known.lock:
        parts = {"success": known.success, "fail": known.fail, **known.parts}
        return {
            "name": model.name,
            "version": "1",
            "last_inference": known.last_ms,
            "inference_count": known.success.count,
            "execution_count": known.executions,
            "inference_stats": {key: _duration(one) for key, one in parts.items()},
            "batch_stats": [
                {"batch_size": requests, "compute_input": _duration(read), "compute_infer": _duration(ran)}
                for requests, (read, ran) in sorted(known.runs.items())
            ],
        }


def _duration(one: Duration) -> dict[str, int]:
    return {"count": one.count, "ns": one.total_ns}
