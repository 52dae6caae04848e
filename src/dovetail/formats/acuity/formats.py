"""Plans as `.quantize` files, and back.

Three ways to hand a plan over: `previous` given: that table with the layers of the plan in
`customized_quantize_layers` (run `quantize --hybrid` with it); `quantized` given: a whole table from our calibration;
neither: only the block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.errors import FormatError
from dovetail.formats.acuity.lint import lint_table, table_findings
from dovetail.formats.acuity.network import AcuityNetwork, read_network
from dovetail.formats.acuity.parameters import table_parameters
from dovetail.formats.acuity.table import QuantizeTable, read_table, write_table
from dovetail.formats.acuity.words import VOCABULARY, precision_of
from dovetail.formats.binding import Binding
from dovetail.formats.format import Diagnostic, ReadRequest, Severity, WriteRequest, Written
from dovetail.formats.spelling import Vocabulary, read_plan, spell
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan


@dataclass(frozen=True, slots=True)
class QuantizeFormat:
    """The table that says how every tensor is stored and which layers are different."""

    name: str = "acuity-quantize"
    title: str = "Acuity: quantisation table"
    pattern: str = "*.quantize"
    granularity: str = "layer of the network"
    vocabulary: Vocabulary = VOCABULARY
    needs: str = "the network (X.json)"

    def write(self, request: WriteRequest) -> Written:
        """Return the table; constants and outputs go with the layers that they belong to."""
        network, binding = _network(request.listing, request.path), self.binding(request)
        spelling = spell(request.plan, request.graph, binding, self.vocabulary)
        words = network.close({item: word.text for item, word in spelling.words.items()})
        if request.quantized is not None:
            parameters = table_parameters(network, binding, request.quantized, request.graph)
            return Written(write_table(QuantizeTable(2, parameters, words)).encode())
        table = QuantizeTable(2, {}, {})
        if request.previous is not None:
            table = read_table(request.previous, request.path)
        return Written(write_table(replace(table, words=words)).encode())

    def binding(self, request: WriteRequest) -> Binding:
        """Return the nodes that every layer stands for; raise FormatError without the network."""
        return _network(request.listing, request.path).bind(request.graph)

    def read(self, content: bytes, request: ReadRequest) -> Plan:
        """Return the plan; a layer or a word that Acuity would silently ignore is an error."""
        network = _network(request.listing, request.path)
        binding = network.bind(request.graph)
        table = read_table(content, request.path)
        errors = [item for item in table_findings(table, network, request.path) if item.severity is Severity.ERROR]
        if errors:
            raise errors[0].error()
        overrides: dict[str, Override] = {}
        for lid, word in table.words.items():
            precision = precision_of(word)
            if precision is None:
                raise FormatError(
                    f"'{lid}': Dovetail has no name for {word}.",
                    path=request.path,
                    line=table.lines.get(lid, 0),
                    code="UNKNOWN_WORD",
                )
            reason = f"{request.path}:{table.lines.get(lid, 0)}: {lid}: {word}"
            if binding.nodes_of.get(lid):
                overrides[lid] = Override(Placement(request.base.target, precision), reason)
        return read_plan(request.graph, binding, request.base, overrides)

    def lint(self, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
        """Return what is wrong or doubtful in a table; without the network, names are not checked."""
        return lint_table(content, request.listing, request.path)


def _network(listing: bytes | None, path: str) -> AcuityNetwork:
    if listing is None:
        raise FormatError(
            "the network is needed: layers have names of its own.",
            path=path,
            line=0,
            code="LISTING",
            hint="Give the .json that 'pegasus import' wrote.",
            option="listing",
        )
    return read_network(listing, path)


QUANTIZE = QuantizeFormat()
