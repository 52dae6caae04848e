"""How far measured tensors are from golden ones, and whether that is good enough."""

from __future__ import annotations

from dovetail.compare.beside import RunElsewhere, compare_elsewhere
from dovetail.compare.case import WrittenCase, write_case
from dovetail.compare.golden import GoldenSet, load_golden, save_golden
from dovetail.compare.layers import LayerRequest, LayerRuns, compare_layers, judge_layers, run_layers, stack_samples
from dovetail.compare.outputs import CompareOptions, TaskCheck, compare_outputs
from dovetail.compare.record import CompareVerdict, Comparison, TaskRow, TensorRow
from dovetail.compare.reduce import Misbehaviour, Reduced, ReduceRequest, reduce_model, remember_reduced
from dovetail.compare.registry import TASK_METRICS, load_metric
from dovetail.compare.saved import load_tensor_pair
from dovetail.compare.serial import from_json, to_json
from dovetail.compare.slices import Head, SliceScore, judged_slices, sqnr_db_along, worst_slice
from dovetail.compare.steps import Steps
from dovetail.compare.task import Reference, TaskMetric, callable_metric
from dovetail.compare.tensor_metrics import TENSOR_METRICS, lsb_histogram, top_k_agreement
from dovetail.compare.verification import InsideLook, Judged, Taps, Verification, VerifiedTensor
from dovetail.compare.verify import VerifyRequest, random_samples, verify

__all__ = [
    "TASK_METRICS",
    "TENSOR_METRICS",
    "CompareOptions",
    "CompareVerdict",
    "Comparison",
    "GoldenSet",
    "Head",
    "InsideLook",
    "Judged",
    "LayerRequest",
    "LayerRuns",
    "Misbehaviour",
    "ReduceRequest",
    "Reduced",
    "Reference",
    "RunElsewhere",
    "SliceScore",
    "Steps",
    "Taps",
    "TaskCheck",
    "TaskMetric",
    "TaskRow",
    "TensorRow",
    "Verification",
    "VerifiedTensor",
    "VerifyRequest",
    "WrittenCase",
    "callable_metric",
    "compare_elsewhere",
    "compare_layers",
    "compare_outputs",
    "from_json",
    "judge_layers",
    "judged_slices",
    "load_golden",
    "load_metric",
    "load_tensor_pair",
    "lsb_histogram",
    "random_samples",
    "reduce_model",
    "remember_reduced",
    "run_layers",
    "save_golden",
    "sqnr_db_along",
    "stack_samples",
    "to_json",
    "top_k_agreement",
    "verify",
    "worst_slice",
    "write_case",
]
