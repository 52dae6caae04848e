"""What both styles of a project write of a program: names for its tensors, the weights file, the edges."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.backends.verisilicon.program import Code, Program, ProgramOperator, Quant, StoredForm, TensorRole
from dovetail.backends.verisilicon.project.spelling import (
    Names,
    list_literal,
    real_list,
    real_literal,
    remark,
    string_literal,
)
from dovetail.errors import CompileError

_ALIGNMENT = 64
_PARTS = {1: "weights", 2: "bias"}
_ACCUMULATING = frozenset({"conv2d", "grouped_conv2d", "deconv2d", "fully_connected"})


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A program with a C++ name for each tensor, and where each constant lies in the weights file."""

    program: Program
    names: tuple[str, ...]
    """By tensor; empty for a constant that no operator reads, which is left out."""
    files: tuple[str, ...]
    """Stems of file names for the inputs and outputs, in this order."""
    offsets: dict[int, int]
    weights: bytes

    def constant_bytes(self, tensor: int) -> int:
        """Return the size of a constant."""
        return len(self.program.tensors[tensor].data or b"")


def list_program(program: Program) -> NamedProgram:
    """Return a program with its names; raise CompileError where a project cannot hold it."""
    _check(program)
    offsets: dict[int, int] = {}
    parts: list[bytes] = []
    at = 0
    names = _tensor_names(program)
    for index, tensor in enumerate(program.tensors):
        if tensor.data is not None and names[index]:
            padding = -len(tensor.data) % _ALIGNMENT
            offsets[index] = at
            parts += [tensor.data, bytes(padding)]
            at += len(tensor.data) + padding
    files = Names()
    # An input that is stored in two ways has one name: it is read from one file.
    given = {name: files.take(name) for name in dict.fromkeys(name for name, _ in program.inputs)}
    stems = (*(given[name] for name, _ in program.inputs), *(files.take(name) for name, _ in program.outputs))
    return NamedProgram(program, names, stems, offsets, b"".join(parts))


def _check(program: Program) -> None:
    for name, tensor in (*program.inputs, *program.outputs):
        form = program.tensors[tensor].form
        if form.quant in (Quant.CHANNEL_SYMMETRIC, Quant.CHANNEL_AFFINE) or form.code is Code.I64:
            raise CompileError(
                f"{program.target}: '{remark(name)}' cannot be read or written by a project: it has a scale per "
                "channel or 64-bit integers.",
                hint="Write a bundle (dovetail compile).",
            )


def _tensor_names(program: Program) -> tuple[str, ...]:
    taken = Names("t_")
    found: dict[int, str] = {}
    for name, tensor in (*program.inputs, *program.outputs, *program.inner):
        found.setdefault(tensor, taken.take(name))
    for operator in program.operators:
        for place, tensor in enumerate(operator.inputs):
            if tensor >= 0 and tensor not in found and program.tensors[tensor].role is TensorRole.CONSTANT:
                part = _PARTS.get(place) if operator.kind in _ACCUMULATING else None
                found[tensor] = taken.take(f"{operator.node}_{part or 'constant'}")
        for tensor in operator.outputs:
            if tensor not in found:
                found[tensor] = taken.take(f"{operator.node}_{operator.kind}")
    return tuple(found.get(index, "") for index in range(len(program.tensors)))


def facts_source(listing: NamedProgram) -> list[str]:
    """Return the definitions that network.h declares, but the network."""
    program = listing.program
    edges = (*program.inputs, *program.outputs)
    rows = [
        f"    {{{string_literal(name)}, {string_literal(listing.files[place])}, {_edge(program, tensor)}}},"
        for place, (name, tensor) in enumerate(edges)
    ]
    count = len(program.inputs)
    return [
        f"const char *const PART = {string_literal(program.sdk_name)};",
        f"const size_t WEIGHT_BYTES = {len(listing.weights)};",
        f"const uint32_t WEIGHT_CHECKSUM = {zlib.adler32(listing.weights)}u;",
        "",
        "// Name, file, element type, shape, whether it is quantised, scale, zero point.",
        *_table("network_inputs", rows[:count]),
        "",
        *_table("network_outputs", rows[count:]),
    ]


def _table(name: str, rows: Sequence[str]) -> list[str]:
    rows = [f"    {row}" for row in rows]
    head = f"const std::vector<Edge> &{name}() {{"
    return [head, "    static const std::vector<Edge> edges = {", *rows, "    };", "    return edges;", "}"]


def _edge(program: Program, tensor: int) -> str:
    held = program.tensors[tensor]
    scale, zero = edge_scale(held.form)
    quantised = "false" if held.form.quant is Quant.NONE else "true"
    shape = list_literal(reversed(held.shape))
    return f"Element::{held.form.code.name}, {shape}, {quantised}, {real_literal(scale)}, {zero}"


def edge_scale(form: StoredForm) -> tuple[float, int]:
    """Return scale and zero point of an input or output; 1 and 0 where it is not quantised."""
    match form.quant:
        case Quant.AFFINE:
            return form.scale, form.zero_point
        case Quant.FIXED_POINT:
            return math.ldexp(1.0, -form.fl), 0
        case _:
            return 1.0, 0


def quantisation(form: StoredForm) -> str:
    """Return the call of a builder that says how a tensor is quantised."""
    match form.quant:
        case Quant.NONE:
            return "plain()"
        case Quant.AFFINE:
            return f"affine({real_literal(form.scale)}, {form.zero_point})"
        case Quant.FIXED_POINT:
            return f"fixed_point({form.fl})"
        case Quant.CHANNEL_SYMMETRIC:
            return f"per_channel({form.axis}, {real_list(form.scales)})"
        case Quant.CHANNEL_AFFINE:
            return f"per_channel({form.axis}, {real_list(form.scales)}, {list_literal(form.zero_points)})"


def heading(program: Program) -> list[str]:
    """Return the comment that begins a source file."""
    count = len(program.operators)
    return [
        f"// A network for {remark(program.target)} ({program.sdk_name}): {count} operators. Written by Dovetail.",
        "// Sizes and axes are given fastest dimension first (W, H, C, N).",
        "",
    ]


def operator_remark(operator: ProgramOperator) -> str:
    """Return the comment before an operator."""
    return f"    // {operator.kind}: node '{remark(operator.node)}'"
