"""Dovetail fits one neural network across an NPU and a CPU.

The facade: verbs and the values that they take and give. Names load on first use, so that
`import dovetail.runtime` on a board costs no more than numpy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dovetail.backend.modelled import BoardSettings as BoardSettings
    from dovetail.backend.project import ProjectStyle as ProjectStyle
    from dovetail.backend.protocols import CompileOptions as CompileOptions
    from dovetail.backend.protocols import Fidelity as Fidelity
    from dovetail.backend.registry import backend_statuses as backend_statuses
    from dovetail.backend.registry import backends_for as backends_for
    from dovetail.backend.registry import find_target as find_target
    from dovetail.backend.registry import known_targets as known_targets
    from dovetail.bundle import Bundle as Bundle
    from dovetail.bundle import export_bundle as export_bundle
    from dovetail.bundle import import_bundle as import_bundle
    from dovetail.bundle import load_bundle as load_bundle
    from dovetail.bundle import save_bundle as save_bundle
    from dovetail.compare import CompareOptions as CompareOptions
    from dovetail.compare import Comparison as Comparison
    from dovetail.compare import GoldenSet as GoldenSet
    from dovetail.compare import LayerRequest as LayerRequest
    from dovetail.compare import TaskCheck as TaskCheck
    from dovetail.compare import compare_layers as compare_layers
    from dovetail.compare import compare_outputs as compare_outputs
    from dovetail.compare import load_golden as load_golden
    from dovetail.compare import load_metric as load_metric
    from dovetail.compare import load_tensor_pair as load_tensor_pair
    from dovetail.compare import save_golden as save_golden
    from dovetail.compare.borders import check_accounts as check_accounts
    from dovetail.compare.borders import verify_borders as verify_borders
    from dovetail.compile import BlobCache as BlobCache
    from dovetail.compile import CompileRequest as CompileRequest
    from dovetail.compile import Isolation as Isolation
    from dovetail.compile import ProjectSet as ProjectSet
    from dovetail.compile import Repaired as Repaired
    from dovetail.compile import RepairRequest as RepairRequest
    from dovetail.compile import compile_model as compile_model
    from dovetail.compile import compile_repaired as compile_repaired
    from dovetail.compile import make_projects as make_projects
    from dovetail.compile import vendor_files as vendor_files
    from dovetail.cost import CostModel as CostModel
    from dovetail.cost import CostTable as CostTable
    from dovetail.cost import ModelRequest as ModelRequest
    from dovetail.cost import PlanCost as PlanCost
    from dovetail.cost import load_cost_table as load_cost_table
    from dovetail.cost import make_cost_model as make_cost_model
    from dovetail.cost import model_plan as model_plan
    from dovetail.cost import model_tables as model_tables
    from dovetail.cost import predict_partitions as predict_partitions
    from dovetail.cost import units_of_plan as units_of_plan
    from dovetail.data import InputSpec as InputSpec
    from dovetail.data import Sample as Sample
    from dovetail.data import load_preprocess as load_preprocess
    from dovetail.data import open_samples as open_samples
    from dovetail.data import specs_of as specs_of
    from dovetail.data import split as split
    from dovetail.errors import DovetailError as DovetailError
    from dovetail.exporters import save_onnx as save_onnx
    from dovetail.exporters.epcontext import to_epcontext as to_epcontext
    from dovetail.formats import ReadRequest as ReadRequest
    from dovetail.formats import WriteRequest as WriteRequest
    from dovetail.formats import find_format as find_format
    from dovetail.formats import known_formats as known_formats
    from dovetail.importers import Conversion as Conversion
    from dovetail.importers import LoadOptions as LoadOptions
    from dovetail.importers import Survey as Survey
    from dovetail.importers import load_model as load_model
    from dovetail.importers import load_module as load_module
    from dovetail.importers import survey_model as survey_model
    from dovetail.ir import Graph as Graph
    from dovetail.ir import load_graph as load_graph
    from dovetail.ir import save_graph as save_graph
    from dovetail.ir.precision import Precision as Precision
    from dovetail.partition import PartitionedGraph as PartitionedGraph
    from dovetail.partition import partition as partition
    from dovetail.passes import normalize as normalize
    from dovetail.plan import Placement as Placement
    from dovetail.plan import Plan as Plan
    from dovetail.plan import Recipe as Recipe
    from dovetail.plan import Rule as Rule
    from dovetail.plan import Unit as Unit
    from dovetail.plan import explain as explain
    from dovetail.plan import find_units as find_units
    from dovetail.plan import load_plan as load_plan
    from dovetail.plan import load_recipe as load_recipe
    from dovetail.plan import make_plan as make_plan
    from dovetail.plan import parse_placement as parse_placement
    from dovetail.plan import plan_to_recipe as plan_to_recipe
    from dovetail.plan import recipe_to_toml as recipe_to_toml
    from dovetail.plan.devices import DeviceChoice as DeviceChoice
    from dovetail.plan.devices import parse_devices as parse_devices
    from dovetail.plan.devices import recipe_of as recipe_of
    from dovetail.quantize import Calibration as Calibration
    from dovetail.quantize import CalibrationMethod as CalibrationMethod
    from dovetail.quantize import CalibrationOptions as CalibrationOptions
    from dovetail.quantize import Dequantized as Dequantized
    from dovetail.quantize import ObserverOptions as ObserverOptions
    from dovetail.quantize import QuantizedGraph as QuantizedGraph
    from dovetail.quantize import Ranges as Ranges
    from dovetail.quantize import calibrate as calibrate
    from dovetail.quantize import dequantize as dequantize
    from dovetail.quantize import is_quantized as is_quantized
    from dovetail.quantize import load_by_rules as load_by_rules
    from dovetail.quantize import load_float as load_float
    from dovetail.quantize import load_ranges as load_ranges
    from dovetail.quantize import quantize as quantize
    from dovetail.report import ModelSummary as ModelSummary
    from dovetail.report import Report as Report
    from dovetail.report import describe_graph as describe_graph
    from dovetail.report import make_report as make_report
    from dovetail.report import page_text as page_text
    from dovetail.report import report_page as report_page
    from dovetail.report import report_to_json as report_to_json
    from dovetail.report.dot import draw_partitions as draw_partitions
    from dovetail.report.dot import draw_plan as draw_plan
    from dovetail.report.dot import svg_of as svg_of
    from dovetail.report.trace import chrome_trace as chrome_trace
    from dovetail.runtime import Guard as Guard
    from dovetail.runtime import Run as Run
    from dovetail.runtime import Session as Session
    from dovetail.runtime import SessionOptions as SessionOptions
    from dovetail.runtime import open_session as open_session
    from dovetail.search import CostOptions as CostOptions
    from dovetail.search import Goal as Goal
    from dovetail.search import TuneOptions as TuneOptions
    from dovetail.search import TuneRequest as TuneRequest
    from dovetail.search import TuneResult as TuneResult
    from dovetail.search import parse_goal as parse_goal
    from dovetail.search import tune as tune


_HOMES = {
    "dovetail.backend.modelled": ("BoardSettings",),
    "dovetail.backend.project": ("ProjectStyle",),
    "dovetail.backend.protocols": (
        "CompileOptions",
        "Fidelity",
    ),
    "dovetail.backend.registry": (
        "backend_statuses",
        "backends_for",
        "find_target",
        "known_targets",
    ),
    "dovetail.bundle": (
        "Bundle",
        "export_bundle",
        "import_bundle",
        "load_bundle",
        "save_bundle",
    ),
    "dovetail.compare": (
        "CompareOptions",
        "Comparison",
        "GoldenSet",
        "LayerRequest",
        "TaskCheck",
        "compare_layers",
        "compare_outputs",
        "load_golden",
        "load_metric",
        "load_tensor_pair",
        "save_golden",
    ),
    "dovetail.compare.borders": (
        "check_accounts",
        "verify_borders",
    ),
    "dovetail.compile": (
        "BlobCache",
        "CompileRequest",
        "Isolation",
        "ProjectSet",
        "RepairRequest",
        "Repaired",
        "compile_model",
        "compile_repaired",
        "make_projects",
        "vendor_files",
    ),
    "dovetail.cost": (
        "CostModel",
        "CostTable",
        "ModelRequest",
        "PlanCost",
        "load_cost_table",
        "make_cost_model",
        "model_plan",
        "model_tables",
        "predict_partitions",
        "units_of_plan",
    ),
    "dovetail.data": (
        "InputSpec",
        "Sample",
        "load_preprocess",
        "open_samples",
        "specs_of",
        "split",
    ),
    "dovetail.errors": ("DovetailError",),
    "dovetail.exporters": ("save_onnx",),
    "dovetail.exporters.epcontext": ("to_epcontext",),
    "dovetail.formats": (
        "ReadRequest",
        "WriteRequest",
        "find_format",
        "known_formats",
    ),
    "dovetail.importers": (
        "Conversion",
        "LoadOptions",
        "Survey",
        "load_model",
        "load_module",
        "survey_model",
    ),
    "dovetail.ir": (
        "Graph",
        "load_graph",
        "save_graph",
    ),
    "dovetail.ir.precision": ("Precision",),
    "dovetail.partition": (
        "PartitionedGraph",
        "partition",
    ),
    "dovetail.passes": ("normalize",),
    "dovetail.plan": (
        "Placement",
        "Plan",
        "Recipe",
        "Rule",
        "Unit",
        "explain",
        "find_units",
        "load_plan",
        "load_recipe",
        "make_plan",
        "parse_placement",
        "plan_to_recipe",
        "recipe_to_toml",
    ),
    "dovetail.plan.devices": (
        "DeviceChoice",
        "parse_devices",
        "recipe_of",
    ),
    "dovetail.report.dot": (
        "draw_partitions",
        "draw_plan",
        "svg_of",
    ),
    "dovetail.report.trace": ("chrome_trace",),
    "dovetail.quantize": (
        "Calibration",
        "CalibrationMethod",
        "CalibrationOptions",
        "Dequantized",
        "ObserverOptions",
        "QuantizedGraph",
        "Ranges",
        "calibrate",
        "dequantize",
        "is_quantized",
        "load_by_rules",
        "load_float",
        "load_ranges",
        "quantize",
    ),
    "dovetail.report": (
        "ModelSummary",
        "Report",
        "describe_graph",
        "make_report",
        "page_text",
        "report_page",
        "report_to_json",
    ),
    "dovetail.runtime": (
        "Guard",
        "Run",
        "Session",
        "SessionOptions",
        "open_session",
    ),
    "dovetail.search": (
        "CostOptions",
        "Goal",
        "TuneOptions",
        "TuneRequest",
        "TuneResult",
        "parse_goal",
        "tune",
    ),
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


class _Facade(ModuleType):
    """Keep verbs callable: `quantize` and `partition` are also packages, which the import system would put here."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Facade
