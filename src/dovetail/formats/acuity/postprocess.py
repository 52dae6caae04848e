"""Write, read and check the postprocess file: what inference does with outputs, and what the exported program does."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dovetail.errors import FormatError
from dovetail.formats.binding import suggest
from dovetail.formats.format import Diagnostic, Severity, diagnostic_of
from dovetail.formats.text import mapping_in
from dovetail.formats.yaml_text import block_text, parse_yaml

_ROOT = "postprocess"
_TOP = 5
_KINDS = ("TENSOR", "BIN", "NPY")


@dataclass(frozen=True, slots=True)
class OutputPort:
    """One output; `perm` is the order of its axes in the exported program."""

    lid: str
    perm: tuple[int, ...]
    add_node: bool = False
    force_float: bool = True


def write_postprocess(ports: Sequence[OutputPort]) -> str:
    """Return the file that `pegasus generate postprocess-file` makes: tensors are dumped, the largest five printed."""
    outputs = [
        {
            "lid": port.lid,
            "postproc_params": {
                "add_postproc_node": port.add_node,
                "perm": list(port.perm),
                "force_float32": port.force_float,
            },
        }
        for port in ports
    ]
    tools = {"print_topn": {"topn": _TOP}, "dump_results": {"file_type": _KINDS[0]}}
    return block_text({_ROOT: {"acuity_postprocs": tools, "app_postprocs": outputs}})


def is_postprocess(content: bytes) -> bool:
    """Tell whether a file of YAML is meant to be one of these."""
    return re.search(rb"^postprocess\s*:", content, re.MULTILINE) is not None


def read_postprocess(content: bytes, path: str) -> tuple[OutputPort, ...]:
    """Return the outputs in a file; raise FormatError naming what is wrong."""
    root = mapping_in(parse_yaml(content, path).value, path, "a postprocess file")
    body = mapping_in(root.get(_ROOT), path, _ROOT)
    outputs = body.get("app_postprocs")
    if not isinstance(outputs, list):
        raise FormatError("app_postprocs: a list is expected.", path=path, line=0, code="SHAPE")
    return tuple(_port(mapping_in(item, path, "an output"), path) for item in outputs)


def _port(item: Mapping[str, object], path: str) -> OutputPort:
    found = mapping_in(item.get("postproc_params") or {}, path, "postproc_params")
    perm = found.get("perm", [])
    if not isinstance(perm, list) or sorted(map(str, perm)) != sorted(map(str, range(len(perm)))):
        raise FormatError(
            f"'{item.get('lid', '')}': perm {perm} is no order of axes.", path=path, line=0, code="NUMBER"
        )
    return OutputPort(
        str(item.get("lid", "")),
        tuple(int(axis) for axis in perm),
        bool(found.get("add_postproc_node", False)),
        bool(found.get("force_float32", True)),
    )


def lint_postprocess(content: bytes, path: str, layers: Collection[str] | None = None) -> tuple[Diagnostic, ...]:
    """Return what is wrong in a file; without the layers of the network, names are not checked."""
    try:
        ports = read_postprocess(content, path)
    except FormatError as error:
        return (diagnostic_of(error),)
    unknown = [port.lid for port in ports if layers is not None and port.lid not in layers]
    return tuple(
        Diagnostic(
            "UNKNOWN_LAYER",
            Severity.ERROR,
            path,
            0,
            f"'{lid}' is no layer of this network.",
            suggest(lid, layers or ()),
        )
        for lid in unknown
    )
