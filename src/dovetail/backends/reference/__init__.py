"""The executable specification: every operator in numpy, quantised ones in exact integer arithmetic."""

from dovetail.backends.reference.interpreter import run_graph
from dovetail.backends.reference.plugin import REFERENCE, ReferenceBackend, backend

__all__ = ["REFERENCE", "ReferenceBackend", "backend", "run_graph"]
