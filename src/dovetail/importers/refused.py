"""Formats that are recognised and refused, each with the reason and a way out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dovetail.errors import LoadError
from dovetail.importers.options import LoadOptions
from dovetail.ir import Graph


@dataclass(frozen=True, slots=True)
class _Refusal:
    why: str
    hint: str


_PICKLE = _Refusal(
    "is a PyTorch file with pickled Python inside, which Dovetail never loads; a state dict alone has no network",
    "In PyTorch: torch.onnx.export(module.eval(), example, 'model.onnx', dynamo=True).",
)
_TENSORFLOW = _Refusal(
    "is a TensorFlow model, which Dovetail does not read itself",
    "Convert it: python -m tf2onnx.convert (--graphdef, --saved-model or --keras) --output model.onnx; or to .tflite.",
)
_PADDLE = _Refusal(
    "is a Paddle model, which Dovetail does not read itself",
    "Convert it: paddle2onnx --model_dir . --model_filename FILE --params_filename FILE --save_file model.onnx.",
)
_PROGRAM = _Refusal(
    "is a PyTorch program, which Dovetail does not read itself",
    "In PyTorch: torch.onnx.export(torch.export.load(file), (), 'model.onnx', dynamo=True).",
)

REFUSED: Mapping[str, _Refusal] = {
    ".h5": _TENSORFLOW,
    ".jit": _PICKLE,
    ".keras": _TENSORFLOW,
    ".pb": _TENSORFLOW,
    ".pdiparams": _PADDLE,
    ".pdmodel": _PADDLE,
    ".pt": _PICKLE,
    ".pt2": _PROGRAM,
    ".pth": _PICKLE,
}
"""What is said about a file, by its suffix."""


def refuse(path: Path, _options: LoadOptions) -> Graph:
    """Raise the LoadError that explains why a file is not read."""
    found = REFUSED[path.suffix.lower()]
    raise LoadError(f"{path}: {found.why}.", hint=found.hint)
