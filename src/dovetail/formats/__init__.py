"""Write plans in the files that other toolchains read, and read their files as plans."""

from dovetail.formats.binding import Binding, Listing, Operation, bind_operations, bind_sources, bind_tensors
from dovetail.formats.format import Diagnostic, Format, ReadRequest, Severity, WriteRequest, Written
from dovetail.formats.registry import find_format, format_names, known_formats
from dovetail.formats.spelling import Side, Vocabulary, Word, nearest_plan, read_plan, spell

__all__ = [
    "Binding",
    "Diagnostic",
    "Format",
    "Listing",
    "Operation",
    "ReadRequest",
    "Severity",
    "Side",
    "Vocabulary",
    "Word",
    "WriteRequest",
    "Written",
    "bind_operations",
    "bind_sources",
    "bind_tensors",
    "find_format",
    "format_names",
    "known_formats",
    "nearest_plan",
    "read_plan",
    "spell",
]
