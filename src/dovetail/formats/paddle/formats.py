"""Plans as subgraph.txt and the mixed-precision file, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding, Operation, bind_operations
from dovetail.formats.format import Diagnostic, ReadRequest, WriteRequest, Written
from dovetail.formats.paddle.lint import LintContext, lint
from dovetail.formats.paddle.log import LoggedOperation, parse_log
from dovetail.formats.paddle.operators import BLOCK_EDGES
from dovetail.formats.paddle.policy import PaddleDevice, Policy
from dovetail.formats.paddle.rules import Dialect, SubgraphRule, load_rules, match_all
from dovetail.formats.spelling import Side, Vocabulary, Word, read_plan, spell
from dovetail.formats.text import decode
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Override, Plan

_BYTES = (Precision.U8, Precision.I8, Precision.I8PC)
_NPU = Word("npu", Side.NPU, _BYTES)
_NPU_FLOAT = Word("npu-fp32", Side.NPU, (Precision.FP32,))
_CPU = Word("cpu", Side.CPU, (Precision.FP32,))
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)*")


def dialect_of(version: str, path: str = "") -> Dialect:
    """Return how a version of Paddle Lite reads the file; an empty text is the newest, `pipe` splits at '|'."""
    if version == Dialect.PIPE.value:
        return Dialect.PIPE
    match = _VERSION.fullmatch(version)
    if not version:
        return Dialect.V212
    if match is None:
        raise FormatError(
            f"'{version}' is no version of Paddle Lite.", path=path, line=0, code="VERSION", hint="v2.12, or pipe."
        )
    return Dialect.V212 if (int(match[1]), int(match[2])) >= (2, 12) else Dialect.V210


def operations_of(listing: bytes | None, path: str) -> tuple[LoggedOperation, ...]:
    """Return the operators of a log; raise FormatError when there is none."""
    log = parse_log(listing or b"", path)
    if not log.operations:
        raise FormatError(
            "Paddle Lite's own list of operators is needed.",
            path=path,
            line=0,
            code="LISTING",
            hint="Give the log of a run, taken with '> log.txt 2>&1'.",
            option="listing",
        )
    return log.operations


def bind_log(graph: Graph, operations: tuple[LoggedOperation, ...]) -> Binding:
    """Bind the operators of a log, by their positions, to nodes."""
    listed = [
        Operation(str(index), op.op_type, op.ins, () if op.op_type in BLOCK_EDGES else op.outs)
        for index, op in enumerate(operations)
    ]
    return bind_operations(graph, listed)


@dataclass(frozen=True, slots=True)
class PaddleFormat:
    """One of the two files; `main` is what a rule in it means."""

    name: str
    title: str
    pattern: str
    main: PaddleDevice
    vocabulary: Vocabulary
    granularity: str = "operator of the log"
    needs: str = "the log of a run (log.txt)"

    def write(self, request: WriteRequest) -> Written:
        """Return the file, and the mixed-precision file beside subgraph.txt when the plan needs one."""
        dialect = dialect_of(request.version, request.path)
        operations = operations_of(request.listing, request.path)
        spelling = spell(request.plan, request.graph, self.binding(request), self.vocabulary)
        devices = [PaddleDevice.NPU_INT8] * len(operations)
        for item, word in spelling.words.items():
            devices[int(item)] = PaddleDevice.CPU if word is _CPU else PaddleDevice.NPU_FP32
        policy = Policy(operations, tuple(devices))
        mixed = policy.mixed_text(dialect, request.path).encode()
        if self.main is PaddleDevice.NPU_FP32:
            return Written(mixed)
        beside = {"mixed": mixed} if PaddleDevice.NPU_FP32 in devices else {}
        return Written(policy.subgraph_text(dialect, request.path).encode(), beside)

    def binding(self, request: WriteRequest) -> Binding:
        """Return the nodes that every operator stands for; raise FormatError without the log."""
        return bind_log(request.graph, operations_of(request.listing, request.path))

    def read(self, content: bytes, request: ReadRequest) -> Plan:
        """Return the plan; a rule that matches nothing is an error here, though Paddle Lite ignores it."""
        operations = operations_of(request.listing, request.path)
        binding = bind_log(request.graph, operations)
        in_float = Placement(request.base.target, Precision.FP32)
        place = request.exception if self.main is PaddleDevice.CPU else in_float
        overrides = self._found(content, request, operations, place)
        mixed = request.beside.get("mixed")
        if mixed is not None:
            # An operator of both files runs on the CPU.
            overrides = self._found(mixed, request, operations, in_float) | overrides
        return read_plan(request.graph, binding, request.base, overrides)

    def _found(
        self, content: bytes, request: ReadRequest, operations: tuple[LoggedOperation, ...], place: Placement
    ) -> dict[str, Override]:
        dialect = dialect_of(request.version, request.path)
        errors = [item for item in self.lint(content, request) if item.code in ("E06", "E08", "NOT_TEXT", "TOO_LARGE")]
        if errors:
            raise errors[0].error()
        rules: tuple[SubgraphRule, ...] = load_rules(decode(content, request.path), dialect)
        index = {id(op): str(number) for number, op in enumerate(operations)}
        overrides: dict[str, Override] = {}
        for rule in rules:
            matched = match_all([rule], operations)
            if not matched:
                raise FormatError(
                    f"'{rule.text[:120]}' matches no operator.",
                    path=request.path,
                    line=rule.line,
                    code="E06",
                    hint="Run 'dovetail paddle lint', then 'dovetail paddle fix'.",
                )
            reason = f"{request.path}:{rule.line}: {rule.text[:120]}"
            overrides.update({index[id(op)]: Override(place, reason) for op in matched})
        return overrides

    def lint(self, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
        """Return what is wrong or doubtful in the file."""
        operations = () if request.listing is None else parse_log(request.listing, request.path).operations
        return lint(content, LintContext(request.path, dialect_of(request.version, request.path), operations))


SUBGRAPH = PaddleFormat(
    "paddle-subgraph",
    "Paddle Lite: off the NPU",
    "*subgraph*.txt",
    PaddleDevice.CPU,
    Vocabulary((_NPU,), (_CPU, _NPU_FLOAT)),
)
MIXED = PaddleFormat(
    "paddle-mixed",
    "Paddle Lite: float on NPU",
    "*mixed_precision*.txt",
    PaddleDevice.NPU_FP32,
    Vocabulary((_NPU,), (_NPU_FLOAT,)),
)
