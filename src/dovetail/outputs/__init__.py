"""What a model's outputs are, and the decisions in them."""

from __future__ import annotations

from dovetail.outputs.ends import Run, Shape, stack_runs
from dovetail.outputs.recognise import recognise
from dovetail.outputs.view import SURE, HeadView, Kind, OutputRole, OutputsView

__all__ = ["SURE", "HeadView", "Kind", "OutputRole", "OutputsView", "Run", "Shape", "recognise", "stack_runs"]
