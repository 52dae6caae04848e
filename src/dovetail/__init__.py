"""Dovetail fits one neural network across an NPU and a CPU.

The facade: verbs and the values that they take and give. Names load on first use, so that
`import dovetail.runtime` on a board costs no more than numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dovetail.backend.protocols import (
        CompileOptions as CompileOptions,
    )
    from dovetail.backend.protocols import (
        Fidelity as Fidelity,
    )
    from dovetail.backend.registry import (
        backend_statuses as backend_statuses,
    )
    from dovetail.backend.registry import (
        find_target as find_target,
    )
    from dovetail.backend.registry import (
        known_targets as known_targets,
    )
    from dovetail.bundle import (
        Bundle as Bundle,
    )
    from dovetail.bundle import (
        load_bundle as load_bundle,
    )
    from dovetail.bundle import (
        save_bundle as save_bundle,
    )
    from dovetail.compare import (
        compare_outputs as compare_outputs,
    )
    from dovetail.compare import (
        load_metric as load_metric,
    )
    from dovetail.compile import (
        CompileRequest as CompileRequest,
    )
    from dovetail.compile import (
        compile_model as compile_model,
    )
    from dovetail.data import (
        InputSpec as InputSpec,
    )
    from dovetail.data import (
        Sample as Sample,
    )
    from dovetail.data import (
        load_preprocess as load_preprocess,
    )
    from dovetail.data import (
        open_samples as open_samples,
    )
    from dovetail.errors import DovetailError as DovetailError
    from dovetail.importers import (
        LoadOptions as LoadOptions,
    )
    from dovetail.importers import (
        load_model as load_model,
    )
    from dovetail.ir import Graph as Graph
    from dovetail.ir.precision import Precision as Precision
    from dovetail.partition import (
        PartitionedGraph as PartitionedGraph,
    )
    from dovetail.partition import (
        partition as partition,
    )
    from dovetail.passes import normalize as normalize
    from dovetail.plan import (
        Placement as Placement,
    )
    from dovetail.plan import (
        Plan as Plan,
    )
    from dovetail.plan import (
        Recipe as Recipe,
    )
    from dovetail.plan import (
        explain as explain,
    )
    from dovetail.plan import (
        load_recipe as load_recipe,
    )
    from dovetail.plan import (
        make_plan as make_plan,
    )
    from dovetail.plan import (
        parse_placement as parse_placement,
    )
    from dovetail.quantize import (
        CalibrationMethod as CalibrationMethod,
    )
    from dovetail.quantize import (
        CalibrationOptions as CalibrationOptions,
    )
    from dovetail.quantize import (
        QuantizedGraph as QuantizedGraph,
    )
    from dovetail.quantize import (
        Ranges as Ranges,
    )
    from dovetail.quantize import (
        calibrate as calibrate,
    )
    from dovetail.quantize import (
        quantize as quantize,
    )
    from dovetail.runtime import (
        Run as Run,
    )
    from dovetail.runtime import (
        Session as Session,
    )
    from dovetail.runtime import (
        open_session as open_session,
    )
    from dovetail.search import (
        Goal as Goal,
    )
    from dovetail.search import (
        TuneOptions as TuneOptions,
    )
    from dovetail.search import (
        TuneRequest as TuneRequest,
    )
    from dovetail.search import (
        TuneResult as TuneResult,
    )
    from dovetail.search import (
        parse_goal as parse_goal,
    )
    from dovetail.search import (
        tune as tune,
    )


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
