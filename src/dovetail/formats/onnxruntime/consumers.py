"""ONNX Runtime as the consumer of Q/DQ files, of arguments for its quantiser, and of float models on a grid."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from dovetail.errors import FormatError
from dovetail.exporters import to_onnx
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, noise_inputs
from dovetail.formats.onnxruntime.arguments import quantizer_arguments
from dovetail.formats.onnxruntime.quantiser import MODEL
from dovetail.formats.onnxruntime.stored import StoredModel, compare_stored
from dovetail.ir.dtypes import AnyArray

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Feeds = Sequence[Mapping[str, AnyArray]]


@dataclass(frozen=True, slots=True)
class RuntimeConsumer:
    """Make the quantised model that ONNX Runtime runs of what was written, load it, and read it back."""

    quantise: Callable[[ConsumerRequest, Feeds, Path], bytes]
    models: str = ".onnx"
    needs_model: bool = False

    def read(self, request: ConsumerRequest) -> ConsumerReading:
        """Return what ONNX Runtime made of it; raise FormatError where it refuses the file."""
        import onnxruntime

        feeds = request.samples or noise_inputs(request.graph)
        with tempfile.TemporaryDirectory(prefix="dovetail-") as folder, _quiet():
            try:
                content = self.quantise(request, feeds, Path(folder))
                session, held = _load(content, Path(folder) / "held.onnx")
                runs = [session.run(None, dict(item)) for item in request.run]
            except FormatError:
                raise
            except Exception as error:  # ONNX Runtime's own errors have no common type
                message = (str(error).splitlines() or [type(error).__name__])[0].strip().rstrip(".")
                raise FormatError(
                    f"ONNX Runtime refuses it: {message}.", path="the exported file", line=0, code="CONSUMER"
                ) from error
        nodes = tuple(compare_stored(request.graph, request.plan, StoredModel(held)))
        outputs = tuple(dict(zip(request.graph.outputs, item, strict=True)) for item in runs)
        return ConsumerReading(f"ONNX Runtime {onnxruntime.__version__}", nodes, outputs)


def _load(content: bytes, copy: Path) -> tuple[InferenceSession, onnx.ModelProto]:
    """Return a session on a model, and the model as the runtime holds it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(copy)
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return session, onnx.load(copy)


def _as_written(request: ConsumerRequest, _feeds: Feeds, _folder: Path) -> bytes:
    return request.written.content


def _on_grid(request: ConsumerRequest, feeds: Feeds, folder: Path) -> bytes:
    return _static(request.written.content, request.written.beside["quantize_static"], feeds, folder)


def _by_arguments(request: ConsumerRequest, feeds: Feeds, folder: Path) -> bytes:
    model = request.written.beside.get(MODEL, request.model)
    model = model if model is not None else to_onnx(request.graph).SerializeToString()
    return _static(model, request.written.content, feeds, folder)


def _static(model: bytes, arguments: bytes, feeds: Feeds, folder: Path) -> bytes:
    """Return what `quantize_static` makes of a model."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(feeds)

        def get_next(self) -> dict[str, AnyArray] | None:
            item = next(self.left, None)
            return None if item is None else dict(item)

    source, target = folder / "float.onnx", folder / "quantised.onnx"
    source.write_bytes(model)
    quantize_static(source, target, Reader(), **quantizer_arguments(arguments))
    return target.read_bytes()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the quantiser's hints about its own pre-processing off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


QDQ = RuntimeConsumer(_as_written)
GRID = RuntimeConsumer(_on_grid)
QUANTISER = RuntimeConsumer(_by_arguments)
