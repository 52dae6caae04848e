"""Read a live PyTorch module: its own PyTorch writes the program, the environment's converts it."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from dovetail.errors import LoadError
from dovetail.importers.converted.convert import convert
from dovetail.importers.converted.source import recognise
from dovetail.importers.onnx import load_onnx
from dovetail.importers.options import LoadOptions
from dovetail.ir import Graph


class Module(Protocol):
    """A `torch.nn.Module`, of which only this is asked here."""

    training: bool

    def eval(self) -> object:
        """Put the module into the mode of inference."""

    def train(self, mode: bool = True) -> object:
        """Put the module into the mode of training, or out of it."""


def load_module(module: Module, examples: Sequence[object], options: LoadOptions | None = None) -> Graph:
    """Return the Graph of a live `torch.nn.Module`, traced with example inputs by torch.export.

    The module is exported in the mode of inference and keeps its own. Raises LoadError when it cannot be exported.
    """
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        raise LoadError("a live module needs PyTorch in this Python.", hint="pip install torch.") from error
    if not isinstance(module, torch.nn.Module):
        raise LoadError(
            f"load_module takes a torch.nn.Module, not a {type(module).__name__}.",
            hint="A state dict is weights without a network: make the module and call load_state_dict first.",
        )
    name = type(module).__name__
    training = module.training
    module.eval()
    try:
        with tempfile.TemporaryDirectory(prefix="dovetail-module-") as folder:
            path = Path(folder) / f"{name}.pt2"
            torch.export.save(torch.export.export(module, tuple(examples)), str(path))
            chosen = options or LoadOptions()
            return load_onnx(convert(recognise(path, chosen), chosen), chosen, where=f"module {name}")
    except LoadError:
        raise
    except Exception as error:
        # torch.export raises a type of its own for every construct that it does not know.
        reason = " ".join(str(error).split())[:400]
        raise LoadError(
            f"module {name}: torch.export cannot follow it: {type(error).__name__}: {reason}.",
            hint="Rewrite what depends on values, or export the part that matters.",
        ) from error
    finally:
        module.train(training)
