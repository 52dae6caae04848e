"""Dovetail fits one neural network across an NPU and a CPU.

The verbs of the chain and the values that they take and give; everything else is in its room, such as
`dovetail.formats.find_format`. Names load on first use, so that `import dovetail.runtime` on a board costs no more than
numpy.
"""

import os as _os
import typing as _typing

from dovetail._lazy import exports as _exports
from dovetail._version import __version__ as __version__

# ONNX Runtime reads it on import; else it keeps an identifier of the machine and a database of events at home.
_os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if _typing.TYPE_CHECKING:
    from dovetail.backend.registry import find_target as find_target
    from dovetail.backend.registry import known_targets as known_targets
    from dovetail.bundle import Bundle as Bundle
    from dovetail.bundle import load_bundle as load_bundle
    from dovetail.bundle import save_bundle as save_bundle
    from dovetail.compile import compile_model as compile_model
    from dovetail.data import open_samples as open_samples
    from dovetail.data import specs_of as specs_of
    from dovetail.errors import DovetailError as DovetailError
    from dovetail.fit import Fit as Fit
    from dovetail.fit import FitRequest as FitRequest
    from dovetail.fit import fit as fit
    from dovetail.importers import LoadOptions as LoadOptions
    from dovetail.importers import load_model as load_model
    from dovetail.ir import Graph as Graph
    from dovetail.ir.precision import Precision as Precision
    from dovetail.partition import partition as partition
    from dovetail.passes import normalize as normalize
    from dovetail.plan import Placement as Placement
    from dovetail.plan import Plan as Plan
    from dovetail.plan import Recipe as Recipe
    from dovetail.plan import explain as explain
    from dovetail.plan import load_plan as load_plan
    from dovetail.plan import load_recipe as load_recipe
    from dovetail.plan import make_plan as make_plan
    from dovetail.plan import parse_placement as parse_placement
    from dovetail.quantize import Ranges as Ranges
    from dovetail.quantize import calibrate as calibrate
    from dovetail.quantize import dequantize as dequantize
    from dovetail.quantize import load_ranges as load_ranges
    from dovetail.quantize import quantize as quantize
    from dovetail.runtime import Run as Run
    from dovetail.runtime import Session as Session
    from dovetail.runtime import open_session as open_session
    from dovetail.search import TuneRequest as TuneRequest
    from dovetail.search import TuneResult as TuneResult
    from dovetail.search import tune as tune

    __all__: list[str]
else:
    __getattr__, __dir__, __all__ = _exports(
        __name__,
        {
            "dovetail.backend.registry": ("find_target", "known_targets"),
            "dovetail.bundle": ("Bundle", "load_bundle", "save_bundle"),
            "dovetail.compile": ("compile_model",),
            "dovetail.data": ("open_samples", "specs_of"),
            "dovetail.errors": ("DovetailError",),
            "dovetail.fit": ("Fit", "FitRequest", "fit"),
            "dovetail.importers": ("LoadOptions", "load_model"),
            "dovetail.ir": ("Graph",),
            "dovetail.ir.precision": ("Precision",),
            "dovetail.partition": ("partition",),
            "dovetail.passes": ("normalize",),
            "dovetail.plan": (
                "Placement",
                "Plan",
                "Recipe",
                "explain",
                "load_plan",
                "load_recipe",
                "make_plan",
                "parse_placement",
            ),
            "dovetail.quantize": ("Ranges", "calibrate", "dequantize", "load_ranges", "quantize"),
            "dovetail.runtime": ("Run", "Session", "open_session"),
            "dovetail.search": ("TuneRequest", "TuneResult", "tune"),
        },
    )
