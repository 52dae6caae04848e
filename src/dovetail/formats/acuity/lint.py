"""Find what Acuity would silently ignore in a `.quantize` table."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.errors import FormatError
from dovetail.formats.acuity.network import AcuityNetwork, read_network
from dovetail.formats.acuity.table import QuantizeTable, read_table
from dovetail.formats.acuity.words import BLOCK, is_word, meant
from dovetail.formats.binding import suggest
from dovetail.formats.format import Diagnostic, Severity, diagnostic_of


def lint_table(content: bytes, network: bytes | None, path: str) -> tuple[Diagnostic, ...]:
    """Return what is wrong or doubtful in a file; never raises on bad text."""
    try:
        table = read_table(content, path)
        known = None if network is None else read_network(network, path)
    except FormatError as error:
        return (diagnostic_of(error),)
    return tuple(table_findings(table, known, path))


def table_findings(table: QuantizeTable, network: AcuityNetwork | None, path: str) -> Iterator[Diagnostic]:
    """Yield what is wrong in a table; without the network, names are not checked."""
    if table.legacy:
        line = min(table.lines.values(), default=0)
        yield Diagnostic(
            "UNINDENTED",
            Severity.WARNING,
            path,
            line,
            f"the entries of {BLOCK} are not indented: Acuity crashes on it.",
            "Indent them by two blanks; 'dovetail export' writes them so.",
        )
    for lid, word in table.words.items():
        line = table.lines.get(lid, 0)
        if not is_word(word):
            better = meant(word)
            hint = f"Write {better}." if better else "For example dynamic_fixed_point-i16 or float16."
            message = f"'{lid}': '{word}' is no quantiser: Acuity silently does nothing with it."
            yield Diagnostic("BARE_WORD", Severity.ERROR, path, line, message, hint)
        if network is not None and lid not in network.layers:
            message = f"'{lid}' is no layer of this network: Acuity then silently drops the whole list."
            yield Diagnostic("UNKNOWN_LAYER", Severity.ERROR, path, line, message, suggest(lid, network.layers))
    if network is not None and all(lid in network.layers for lid in table.words):
        for source, lid in network.conflicts(table.words):
            message = (
                f"'{lid}' only moves what '{source}' hands it, and they have different words: Acuity then says "
                '"conflict to quantize tensor" and leaves most of the list undone.'
            )
            line = table.lines.get(lid) or table.lines.get(source, 0)
            yield Diagnostic("CONFLICT", Severity.ERROR, path, line, message, "Give both the same word.")
