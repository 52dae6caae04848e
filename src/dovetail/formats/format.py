"""What a format is: a file of another toolchain that says where nodes go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dovetail.errors import FormatError
from dovetail.formats.spelling import Vocabulary
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision
from dovetail.plan.placement import Placement
from dovetail.plan.plan import Plan
from dovetail.plan.quantized import QuantizedGraph

CPU = Placement("cpu", Precision.FP32)


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What is wrong in a file; `line` counts from 1, 0 is the file as a whole."""

    code: str
    severity: Severity
    path: str
    line: int
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return str(self.error())

    def error(self) -> FormatError:
        """Return the finding as an exception."""
        return FormatError(self.message, path=self.path, line=self.line, code=self.code, hint=self.hint)


def diagnostic_of(error: FormatError) -> Diagnostic:
    """Return an exception as a finding."""
    return Diagnostic(error.code, Severity.ERROR, error.path, error.line, error.detail, error.hint)


@dataclass(frozen=True)
class WriteRequest:
    """A plan to be written and what a format may need for it.

    `listing` is the toolchain's own description of the network (a log, an Acuity .json, an ONNX file), `previous` an
    earlier file of the format whose other contents are to be kept. `quantized` gives scales where a format holds them.
    `version` is the version of the toolchain; empty means the newest that is known.
    """

    plan: Plan
    graph: Graph
    listing: bytes | None = None
    previous: bytes | None = None
    quantized: QuantizedGraph | None = None
    version: str = ""
    path: str = "file"
    model: bytes | None = None
    """The user's own ONNX file, where that is what was planned."""


@dataclass(frozen=True)
class ReadRequest:
    """What a file leaves open: which graph, where unlisted nodes are, and where nodes go that it takes away.

    `beside` are further files of the same toolchain by role, such as the mixed-precision file of Paddle Lite.
    """

    graph: Graph
    base: Placement
    exception: Placement = CPU
    listing: bytes | None = None
    beside: Mapping[str, bytes] = field(default_factory=dict)
    version: str = ""
    path: str = "file"


@dataclass(frozen=True, slots=True)
class Written:
    """The file, files that belong beside it by the role that ends their names, and what its reader has to know."""

    content: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the file as text."""
        return self.content.decode()


class Format(Protocol):
    """Write, read and check one kind of file."""

    @property
    def name(self) -> str:
        """Return the name that people use: `paddle-subgraph`."""

    @property
    def title(self) -> str:
        """Return whose file it is, in a few words."""

    @property
    def pattern(self) -> str:
        """Return the usual file name as a glob."""

    @property
    def granularity(self) -> str:
        """Return what one entry of the file is about: an operator, a layer, a tensor."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Return what the file can say of an entry."""

    @property
    def needs(self) -> str:
        """Return what must be given as the listing, or an empty text."""

    def write(self, request: WriteRequest) -> Written:
        """Return the file; raise InexpressiblePlan when it cannot say what the plan says."""

    def read(self, content: bytes, request: ReadRequest) -> Plan:
        """Return the plan that a file says; raise FormatError naming the line that is wrong."""

    def lint(self, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
        """Return what is wrong or doubtful in a file; never raises on bad text."""


def lint_by_reading(form: Format, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
    """Return the first thing that is wrong in a file, for formats that are read as a whole."""
    try:
        form.read(content, request)
    except FormatError as error:
        return (diagnostic_of(error),)
    return ()
