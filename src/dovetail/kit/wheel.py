"""The distribution `dovetail-runtime`: what running a bundle needs, from the sources of this package."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import dovetail._version
from dovetail._version import __version__
from dovetail.errors import BundleError
from dovetail.kit.closure import needed_files

NAME = "dovetail-runtime"
BOARD_BACKENDS = {
    "cpu": "dovetail.backends.cpu",
    "litert": "dovetail.backends.litert",
    "npusim": "dovetail.backends.npusim",
    "reference": "dovetail.backends.reference",
}
"""The backends of a board: the others compile only, or need what no board has."""

_MODULES = (
    "dovetail.runtime.__main__",
    "dovetail.runtime.recording",
    *BOARD_BACKENDS.values(),
    # What is loaded on demand.
    "dovetail.backend.containment",
    "dovetail.backend.worker",
    "dovetail.backends.cpu.plugin",
    "dovetail.backends.litert.plugin",
    "dovetail.backends.sessions",
)
_DATA = ("backends/verisilicon/parts/measured.json", "backends/verisilicon/parts/prices.json", "py.typed")
_SAME_DAY = (1980, 1, 1, 0, 0, 0)
_METADATA = f"""\
Metadata-Version: 2.1
Name: {NAME}
Version: {__version__}
Summary: Run Dovetail's bundles on a board: standard library and numpy only.
License: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: numpy>=1.26
Provides-Extra: cpu
Requires-Dist: onnxruntime>=1.20; extra == 'cpu'
Provides-Extra: litert
Requires-Dist: ai-edge-litert>=2.0; extra == 'litert'
Requires-Dist: flatbuffers>=24; extra == 'litert'
"""
_WHEEL = "Wheel-Version: 1.0\nGenerator: dovetail\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheel_name() -> str:
    """Return the file name of the wheel."""
    return f"{NAME.replace('-', '_')}-{__version__}-py3-none-any.whl"


def write_board_wheel(folder: Path) -> Path:
    """Write the wheel into a folder and return its path; the same sources give the same bytes.

    Raises BundleError where the folder cannot be written.
    """
    root = Path(dovetail._version.__file__).parent
    files = {
        f"dovetail/{path.relative_to(root)}": path.read_bytes()
        for path in (*needed_files(root, _MODULES), *(root / name for name in _DATA))
    }
    info = f"{NAME.replace('-', '_')}-{__version__}.dist-info"
    points = "".join(f"{name} = {module}:backend\n" for name, module in BOARD_BACKENDS.items())
    files |= {
        f"{info}/METADATA": _METADATA.encode(),
        f"{info}/WHEEL": _WHEEL.encode(),
        f"{info}/entry_points.txt": f"[dovetail.backends]\n{points}".encode(),
        f"{info}/licenses/LICENSE": _licence().encode(),
    }
    rows = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items()]
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    path = folder / wheel_name()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name, _SAME_DAY)
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                archive.writestr(entry, content)
    except OSError as error:
        raise BundleError(f"{path}: cannot be written: {error.strerror}.", hint="Choose another place.") from error
    return path


def _licence() -> str:
    """Return the text that the installed distribution came with."""
    text = distribution("dovetail").read_text("licenses/LICENSE")
    if text is None:
        raise BundleError("the installed Dovetail has no licence text.", hint="Install it again.")
    return text


def _digest(content: bytes) -> str:
    """Return a SHA-256 as wheels have it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
