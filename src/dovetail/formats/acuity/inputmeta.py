"""Read, write and check `inputmeta.yml`: how images become input tensors. A value is `(pixel - mean) * scale`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from dovetail.errors import FormatError
from dovetail.formats.format import Diagnostic, Severity, diagnostic_of
from dovetail.formats.text import decode, mapping_in
from dovetail.formats.yaml_text import block_text, parse_yaml

_CATEGORIES = ("image", "frequency", "undefined")
_KINDS = ("TEXT", "NPY", "H5FS", "SQLITE", "GENERATOR", "ZIP")


@dataclass(frozen=True, slots=True)
class InputPort:
    """One input; `scale` multiplies. `extra` are fields that are not known here, kept as they are."""

    lid: str
    shape: tuple[int, ...]
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    category: str = "image"
    dtype: str = "float32"
    layout: str = "nchw"
    fitting: str = "scale"
    reverse_channel: bool = False
    path: str = "dataset.txt"
    kind: str = "TEXT"
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def channels(self) -> int:
        """Return the number of channels, 1 when the shape does not say."""
        axis = 1 if self.layout == "nchw" else -1
        return self.shape[axis] if len(self.shape) == 4 else 1


def read_inputmeta(content: bytes, path: str) -> tuple[InputPort, ...]:
    """Return the inputs in a file; raise FormatError naming the line that is wrong."""
    text = decode(content, path)
    if "\t" in text:
        line = text.count("\n", 0, text.index("\t")) + 1
        raise FormatError("a TAB: Acuity refuses the file.", path=path, line=line, code="TAB", hint="Use blanks.")
    root = mapping_in(parse_yaml(content, path).value, path, "inputmeta")
    meta = mapping_in(root.get("input_meta"), path, "input_meta")
    ports: list[InputPort] = []
    for database in _list(meta.get("databases"), path, "databases"):
        entry = mapping_in(database, path, "a database")
        for port in _list(entry.get("ports"), path, "ports"):
            ports.append(_port(mapping_in(port, path, "a port"), entry, path))
    return tuple(ports)


def _port(port: Mapping[str, object], database: Mapping[str, object], path: str) -> InputPort:
    preprocess = mapping_in(port.get("preprocess", {}), path, "preprocess")
    known = ("lid", "category", "dtype", "layout", "shape", "fitting", "preprocess")
    rest = {name: value for name, value in preprocess.items() if name not in ("reverse_channel", "mean", "scale")}
    extra: dict[str, object] = {name: value for name, value in port.items() if name not in known}
    return InputPort(
        lid=str(port.get("lid", "")),
        shape=tuple(int(size) for size in _numbers(port.get("shape", []), path, "shape")),
        mean=_numbers(preprocess.get("mean", [0]), path, "mean"),
        scale=_numbers(preprocess.get("scale", [1]), path, "scale"),
        category=str(port.get("category", "image")),
        dtype=str(port.get("dtype", "float32")),
        layout=str(port.get("layout", "nchw")),
        fitting=str(port.get("fitting", "scale")),
        reverse_channel=bool(preprocess.get("reverse_channel", False)),
        path=str(database.get("path", "")),
        kind=str(database.get("type", "TEXT")),
        extra=extra | ({"preprocess": rest} if rest else {}),
    )


def _list(value: object, path: str, what: str) -> list[object]:
    if not isinstance(value, list) or not value:
        raise FormatError(f"{what}: a list is expected.", path=path, line=0, code="SHAPE")
    return value


def _numbers(value: object, path: str, what: str) -> tuple[float, ...]:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        raise FormatError(f"{what}: numbers are expected.", path=path, line=0, code="NUMBER")
    try:
        return tuple(float(item) for item in cast("list[float]", items))
    except OverflowError as error:
        raise FormatError(f"{what}: a number beyond any float.", path=path, line=0, code="NUMBER") from error


def write_inputmeta(ports: Sequence[InputPort]) -> str:
    """Return the file, with a database for each input: Acuity wants separate ones."""
    return block_text({"input_meta": {"databases": [_database(port) for port in ports]}})


def _database(port: InputPort) -> dict[str, object]:
    extra = dict(port.extra)
    rest = extra.pop("preprocess", {})
    preprocess: dict[str, object] = {
        "reverse_channel": port.reverse_channel,
        "mean": [_short(value) for value in _spread(port.mean, port.channels)],
        "scale": [_short(value) for value in _spread(port.scale, port.channels)],
    }
    head: dict[str, object] = {"lid": port.lid, "category": port.category, "dtype": port.dtype}
    middle = {name: extra.pop(name) for name in ("sparse", "tensor_name") if name in extra}
    body: dict[str, object] = {
        "layout": port.layout,
        "shape": list(port.shape),
        "fitting": port.fitting,
        "preprocess": preprocess | dict(cast("Mapping[str, object]", rest)),
    }
    return {"path": port.path, "type": port.kind, "ports": [head | middle | body | extra]}


def _spread(values: tuple[float, ...], count: int) -> tuple[float, ...]:
    return values * count if len(values) == 1 else values


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else value


def lint_inputmeta(content: bytes, path: str) -> tuple[Diagnostic, ...]:
    """Return what is wrong or doubtful in a file; never raises on bad text."""
    try:
        ports = read_inputmeta(content, path)
    except FormatError as error:
        return (diagnostic_of(error),)
    diagnostics: list[Diagnostic] = []

    def add(code: str, severity: Severity, message: str, hint: str | None = None) -> None:
        diagnostics.append(Diagnostic(code, severity, path, 0, message, hint))

    for port in ports:
        if port.category not in _CATEGORIES or port.kind not in _KINDS:
            add("UNKNOWN_WORD", Severity.ERROR, f"'{port.lid}': category '{port.category}', type '{port.kind}'.")
        for name, values in (("mean", port.mean), ("scale", port.scale)):
            if len(values) not in (1, port.channels):
                message = f"'{port.lid}': {len(values)} values of {name} for {port.channels} channels."
                add("CHANNELS", Severity.ERROR, message)
        plain = set(port.mean) == {0.0} and set(port.scale) == {1.0}
        if plain and port.category == "image" and port.dtype == "float32":
            add(
                "UNEDITED",
                Severity.WARNING,
                f"'{port.lid}': mean 0 and scale 1 for a float image: it looks as if nobody edited the file.",
                "Scale multiplies: 0.0039 stands for a division by 255.",
            )
        if any(value > 1.0 for value in port.scale) and port.category == "image":
            add("SCALE", Severity.WARNING, f"'{port.lid}': a scale above 1: it multiplies, it is no divisor.")
    return tuple(diagnostics)
