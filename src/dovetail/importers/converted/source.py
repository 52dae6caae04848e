"""Say what a file of another framework is, from its content, and which converter reads it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dovetail.errors import LoadError
from dovetail.importers.options import LoadOptions

_TORCH = (".jit", ".pt", ".pt2", ".pth", ".torchscript", ".ts")
_TENSORFLOW = (".h5", ".hdf5", ".keras", ".pb")
_PADDLE = (".pdiparams", ".pdmodel")
_EXPORT_HINT = (
    "In PyTorch: torch.export.save(torch.export.export(module.eval(), (example,)), 'model.pt2'), and load that; "
    "or load_module(module, (example,)) of dovetail.importers."
)
_MAX_MEMBERS = 200_000
_HEADS = {
    ".h5": (b"\x89HDF\r\n\x1a\n", "a Keras file in HDF5"),
    ".hdf5": (b"\x89HDF\r\n\x1a\n", "a Keras file in HDF5"),
    ".keras": (b"PK", "a Keras archive"),
    ".pb": (b"\n", "a frozen TensorFlow graph"),
    ".pdmodel": (b"\n", "a Paddle network"),
}
"""How files begin: what is plainly something else must not cost an environment."""
_PIR_SIGN = b'"magic":"pir"'


@dataclass(frozen=True, slots=True)
class ConvertedSource:
    """A model's files, the environment and worker that convert it, and what the worker is asked."""

    path: Path
    environment: str
    worker: str
    kind: str
    files: tuple[Path, ...]
    request: Mapping[str, object] = field(default_factory=dict)
    shaped: bool = False
    """The shapes of inputs are the converter's to fix: what it makes has them."""

    def reading(self, options: LoadOptions) -> LoadOptions:
        """Return how to read what the converter makes."""
        return replace(options, shapes={}) if self.shaped else options


def is_converted(path: Path, head: bytes) -> bool:
    """Tell whether a file or folder is of a format that a converter reads, or of one that is refused by name."""
    if path.suffix.lower() in (*_TORCH, *_TENSORFLOW, *_PADDLE):
        return True
    return path.is_dir() or (path.suffix.lower() == ".json" and _is_pir(path, head))


def recognise(path: Path, options: LoadOptions) -> ConvertedSource:
    """Return what a file is; raise LoadError where it is refused or where options do not fit it."""
    source = _recognise(path, options)
    cut = options.conversion.inputs or options.conversion.outputs
    if cut and source.environment != "tensorflow":
        raise LoadError(f"{path}: only TensorFlow models are cut at inputs and outputs.")
    if options.conversion.submodule and source.kind != "script":
        raise LoadError(f"{path}: only TorchScript has submodules.")
    for file in source.files:
        size = file.stat().st_size
        if size > options.max_file_bytes:
            raise LoadError(f"{file}: {size} bytes; at most {options.max_file_bytes} are read.")
    return source


def _recognise(path: Path, options: LoadOptions) -> ConvertedSource:
    suffix = path.suffix.lower()
    if path.is_dir():
        return _folder(path, options)
    if suffix in _TORCH:
        return _torch(path, options)
    if suffix in _PADDLE or suffix == ".json":
        return _paddle(path)
    if path.name == "saved_model.pb":
        return _saved_model(path, path.parent, options)
    _check_head(path)
    return _tensorflow(path, "frozen" if suffix == ".pb" else "keras", (path,), path, options)


def _check_head(path: Path) -> None:
    head, what = _HEADS.get(path.suffix.lower(), (b"", ""))
    with path.open("rb") as file:
        found = file.read(len(head))
    if found != head or (what == "a Keras archive" and not {"config.json", "metadata.json"} <= _members(path)):
        raise LoadError(f"{path}: damaged, or not {what}.", hint="Copy or export the model again.")


def _folder(path: Path, options: LoadOptions) -> ConvertedSource:
    if (path / "saved_model.pb").is_file():
        return _saved_model(path, path, options)
    for name in ("inference.json", "model.json", "inference.pdmodel", "model.pdmodel"):
        if (path / name).is_file():
            return _paddle(path / name)
    raise LoadError(
        f"{path}: a folder, and neither a SavedModel (saved_model.pb) nor a Paddle model (inference.pdmodel).",
        hint="Give the model's file.",
    )


def _saved_model(path: Path, folder: Path, options: LoadOptions) -> ConvertedSource:
    files = tuple(sorted(item for item in folder.rglob("*") if item.is_file()))
    return _tensorflow(path, "saved", files, folder, options)


def _tensorflow(path: Path, kind: str, files: tuple[Path, ...], opened: Path, options: LoadOptions) -> ConvertedSource:
    request = {
        "path": str(opened.absolute()),
        "inputs": list(options.conversion.inputs),
        "outputs": list(options.conversion.outputs),
    }
    return ConvertedSource(path, "tensorflow", "tensorflow_models", kind, files, request)


def _paddle(path: Path) -> ConvertedSource:
    network = path.with_suffix(".pdmodel") if path.suffix.lower() == ".pdiparams" else path
    if path.suffix.lower() == ".pdiparams" and not network.is_file():
        network = path.with_suffix(".json")
    weights = network.with_suffix(".pdiparams")
    for file, other in ((network, path), (weights, network)):
        if not file.is_file():
            raise LoadError(
                f"{file}: is missing; it is the other half of {other.name}.",
                hint="Copy both files (.pdmodel or .json, and .pdiparams) into one folder, with one stem.",
            )
    _check_head(network)
    environment = "paddle-pir" if network.suffix == ".json" else "paddle"
    request = {"network": str(network.absolute()), "weights": str(weights.absolute())}
    return ConvertedSource(path, environment, "paddle_models", "paddle", (network, weights), request)


def _is_pir(path: Path, head: bytes) -> bool:
    if not head.lstrip().startswith(b"{"):
        return False
    with path.open("rb") as file:
        return _PIR_SIGN in file.read(4096).replace(b" ", b"")


def _torch(path: Path, options: LoadOptions) -> ConvertedSource:
    """Return what a PyTorch file is, from the names inside it: nothing of it is unpickled here."""
    members = _members(path)
    inner = {name.split("/", 1)[-1] for name in members}
    request: dict[str, object] = {"path": str(path.absolute())}
    if members & {"serialized_exported_program.json"} or any(_is_program(name) for name in inner):
        return ConvertedSource(path, "torch", "torch_models", "program", (path,), request)
    if "constants.pkl" in inner and any(name.startswith("code/") for name in inner):
        request |= {
            "shapes": {name: list(shape) for name, shape in options.shapes.items()},
            "submodule": options.conversion.submodule,
        }
        return ConvertedSource(path, "torch", "torch_models", "script", (path,), request, shaped=True)
    if any(name.endswith(".so") for name in inner):
        raise LoadError(f"{path}: is a compiled PyTorch package: machine code, no network.", hint=_EXPORT_HINT)
    raise LoadError(
        f"{path}: holds pickled Python, which Dovetail never loads: either a state dict, which is weights without a "
        "network, or a whole module, which runs code when it is opened.",
        hint=_EXPORT_HINT,
    )


def _is_program(name: str) -> bool:
    return (name.startswith("models/") and name.endswith(".json")) or name == "serialized_exported_program.json"


def _members(path: Path) -> set[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return set()
    if len(names) > _MAX_MEMBERS:
        raise LoadError(f"{path}: damaged: an archive of {len(names)} files.")
    return set(names)
