"""Convert Paddle models to ONNX with paddle2onnx; no packages of Paddle run what is in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

OPSET = 16


def convert(request: dict[str, Any], progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Write model.onnx into the request's folder."""
    import paddle2onnx
    from wording import Refusal

    progress("converting Paddle to ONNX", 0.4)
    target = Path(request["folder"]) / "model.onnx"
    paddle2onnx.export(
        request["network"], request["weights"], str(target), opset_version=OPSET, deploy_backend="onnxruntime"
    )
    if not target.is_file() or not target.stat().st_size:
        raise Refusal(f"{request['label']}: paddle2onnx made nothing of it: an operator has no counterpart in ONNX.")
    return {"file": target.name}
