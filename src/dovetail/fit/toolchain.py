"""A fit for another toolchain: what its file can say and its reader obeys bounds the search."""

from __future__ import annotations

from pathlib import Path

from dovetail.data import SampleSource
from dovetail.errors import PlanError
from dovetail.files import read_file
from dovetail.fit.listener import FitListener
from dovetail.fit.request import FitRequest
from dovetail.formats import WriteRequest
from dovetail.formats.demands import WordFormat, demands_of, find_word_format
from dovetail.formats.entries import EntryFormat
from dovetail.formats.numerics import numerics_of
from dovetail.ir import Graph
from dovetail.plan import Placement, Plan
from dovetail.plan.demands import ToolDemands
from dovetail.quantize import Calibration, calibrate
from dovetail.search.space import FLOAT

NOTHING_REPAIRED = "nothing is repaired: the toolchain reads the model as it is"


def choose_format(request: FitRequest) -> WordFormat | None:
    """Return the format of the toolchain that a fit is for; raise DovetailError for an unknown one."""
    if request.toolchain is not None:
        return find_word_format(request.toolchain)
    if request.listing is not None:
        raise PlanError("a listing is of a toolchain.", hint="Say which one.", option="for_")
    return None


def choose_demands(
    request: FitRequest, form: WordFormat | None, graph: Graph, low: Placement, ladder: tuple[Placement, ...]
) -> ToolDemands | None:
    """Return what plans must be like for a toolchain; raise DovetailError where no plan from here can be said."""
    if form is None:
        return None
    start = Plan(graph.digest, low)
    asked = WriteRequest(start, graph, _listing(request, form), path=str(request.listing or "the listing"))
    return demands_of(form, asked, low, (*ladder, FLOAT))


def calibrate_for(request: FitRequest, graph: Graph, samples: SampleSource, listener: FitListener) -> Calibration:
    """Return ranges: those that the toolchain will find, where it finds its own, else as the request says."""
    own = numerics_of(choose_format(request))
    if own is None:
        return calibrate(graph, samples, request.calibration.options, listener.advance)
    return own.calibrate(graph, samples, listener.advance)


def _listing(request: FitRequest, form: WordFormat) -> bytes | None:
    """Return the listing; a model of the toolchain's own kind is its own."""
    if request.listing is not None:
        return read_file(Path(request.listing))
    own = isinstance(form, EntryFormat) and form.listed and Path(request.model).suffix == form.listed
    return read_file(Path(request.model)) if own else None
