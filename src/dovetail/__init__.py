"""Dovetail fits one neural network across an NPU and a CPU.

The facade: verbs and the values that they take and give. Names load on first use, so that
`import dovetail.runtime` on a board costs no more than numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dovetail.backend.protocols import CompileOptions, Fidelity
    from dovetail.backend.registry import backend_statuses, find_target, known_targets
    from dovetail.bundle import Bundle, load_bundle, save_bundle
    from dovetail.compare import compare_outputs, load_metric
    from dovetail.compile import CompileRequest, compile_model
    from dovetail.data import InputSpec, Sample, load_preprocess, open_samples
    from dovetail.errors import DovetailError
    from dovetail.importers import LoadOptions, load_model
    from dovetail.ir import Graph
    from dovetail.ir.precision import Precision
    from dovetail.partition import PartitionedGraph, partition
    from dovetail.passes import normalize
    from dovetail.plan import Placement, Plan, Recipe, explain, load_recipe, make_plan, parse_placement
    from dovetail.quantize import CalibrationMethod, CalibrationOptions, QuantizedGraph, Ranges, calibrate, quantize
    from dovetail.runtime import Run, Session, open_session
    from dovetail.search import Goal, TuneOptions, TuneRequest, TuneResult, parse_goal, tune

_HOMES = {
    "dovetail.backend.protocols": ("CompileOptions", "Fidelity"),
    "dovetail.backend.registry": ("backend_statuses", "find_target", "known_targets"),
    "dovetail.bundle": ("Bundle", "load_bundle", "save_bundle"),
    "dovetail.compare": ("compare_outputs", "load_metric"),
    "dovetail.compile": ("CompileRequest", "compile_model"),
    "dovetail.data": ("InputSpec", "Sample", "load_preprocess", "open_samples"),
    "dovetail.errors": ("DovetailError",),
    "dovetail.importers": ("LoadOptions", "load_model"),
    "dovetail.ir": ("Graph",),
    "dovetail.ir.precision": ("Precision",),
    "dovetail.partition": ("PartitionedGraph", "partition"),
    "dovetail.passes": ("normalize",),
    "dovetail.plan": ("Placement", "Plan", "Recipe", "explain", "load_recipe", "make_plan", "parse_placement"),
    "dovetail.quantize": (
        "CalibrationMethod",
        "CalibrationOptions",
        "QuantizedGraph",
        "Ranges",
        "calibrate",
        "quantize",
    ),
    "dovetail.runtime": ("Run", "Session", "open_session"),
    "dovetail.search": ("Goal", "TuneOptions", "TuneRequest", "TuneResult", "parse_goal", "tune"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME_OF), "__version__"]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'dovetail' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
