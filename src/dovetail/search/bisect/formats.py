"""Candidates in the formats of other toolchains."""

from __future__ import annotations

from dovetail.errors import InexpressiblePlan, SearchError
from dovetail.formats import Format, WriteRequest
from dovetail.ir.graph import Graph
from dovetail.search.bisect.candidate import BisectCandidate, CandidateFiles, CandidateWriter, UnsayableCandidate


def format_writer(form: Format, graph: Graph, listing: bytes | None = None) -> CandidateWriter:
    """Return the writer of a format for one model; `listing` is what the format needs beside it.

    The writer raises SearchError for candidates that the format cannot say, or not as text.
    """

    def write(candidate: BisectCandidate) -> CandidateFiles:
        if candidate.plan is None:
            raise SearchError(f"format {form.name} needs a model.", hint="Start with one.", option="model")
        try:
            written = form.write(WriteRequest(candidate.plan, graph, listing))
            return CandidateFiles(written.text, written.beside)
        except InexpressiblePlan as error:
            raise UnsayableCandidate(f"format {form.name}: {error.message}", hint=error.hint) from error
        except UnicodeDecodeError as error:
            raise SearchError(
                f"format {form.name} is no text.", hint="Use format plan, and export that.", option="format"
            ) from error

    return write
