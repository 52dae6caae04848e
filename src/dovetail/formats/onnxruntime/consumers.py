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
from dovetail.exporters.onnx_biases import WEIGHED
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, noise_inputs
from dovetail.formats.numerics import ToolNumerics
from dovetail.formats.onnxruntime.arguments import quantizer_arguments
from dovetail.formats.onnxruntime.ranges import QUANTISER_NUMERICS
from dovetail.formats.onnxruntime.stored import StoredModel, compare_stored
from dovetail.formats.own_model import MODEL
from dovetail.ir.dtypes import AnyArray

if TYPE_CHECKING:
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

Feeds = Sequence[Mapping[str, AnyArray]]
_PROVIDERS = ["CPUExecutionProvider"]
_SIGNED = "session.qdqisint8allowed"
"""Keeps int8 what it is, where ONNX Runtime would take it for uint8."""
_HALF_SIGNED = "output_dtype"
"""Is in what ONNX Runtime says where it took only half of a pair for uint8."""
_INTEGERS = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8, onnx.TensorProto.INT32)
_ROUNDING = "WeightBiasQuantization"
"""What ONNX Runtime calls the step in which it rounds float weights that stand between pairs."""
_NUMERICS = ToolNumerics(target="cpu")


@dataclass(frozen=True, slots=True)
class RuntimeConsumer:
    """Make the quantised model that ONNX Runtime runs of what was written, load it, and read it back."""

    quantise: Callable[[ConsumerRequest, Feeds, Path], bytes]
    models: str = ".onnx"
    needs_model: bool = False
    numerics: ToolNumerics | None = _NUMERICS

    def read(self, request: ConsumerRequest) -> ConsumerReading:
        """Return what ONNX Runtime made of it; raise FormatError where it refuses the file."""
        import onnxruntime

        feeds = request.samples or noise_inputs(request.graph)
        with tempfile.TemporaryDirectory(prefix="dovetail-") as folder, _quiet():
            try:
                content = self.quantise(request, feeds, Path(folder))
                held = _held(content, Path(folder), _options())
                session, how = _opened(content, held, Path(folder))
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
        return ConsumerReading(f"ONNX Runtime {onnxruntime.__version__}{how}", nodes, outputs)


def _options(signed: bool = False) -> SessionOptions:
    """Return how users open a session: ONNX Runtime's own choices, but for what it says on the screen.

    `signed`: int8 stays int8.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if signed:
        options.add_session_config_entry(_SIGNED, "1")
    return options


def _opened(content: bytes, held: onnx.ModelProto, folder: Path) -> tuple[InferenceSession, str]:
    """Return a session on a model, and in words what its user has to ask for, where nothing said does not do.

    On x64 ONNX Runtime takes int8 for uint8, and in files of opset 21 only half of what is moved in float: these it
    does not load.
    """
    import onnxruntime

    asked: dict[str, str] = {}
    basic = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        session = onnxruntime.InferenceSession(content, _options(), providers=_PROVIDERS)
    except Exception as error:  # ONNX Runtime's own errors have no common type
        if _HALF_SIGNED not in str(error):
            raise
        asked[_SIGNED] = "1"
    signed = bool(asked)
    if rounds := _rounds_weights(held, _held(content, folder, _options(signed), basic)):
        asked["disabled_optimizers"] = f'["{_ROUNDING}"]'
    if not asked:
        return session, ""
    without = [_ROUNDING] if rounds else None
    session = onnxruntime.InferenceSession(content, _options(signed), providers=_PROVIDERS, disabled_optimizers=without)
    return session, f" with {', '.join(f'{name}={value}' for name, value in asked.items())}"


def _held(
    content: bytes, folder: Path, options: SessionOptions, level: GraphOptimizationLevel | None = None
) -> onnx.ModelProto:
    """Return a model as the runtime holds it at a level of optimisation; without one as it is written."""
    import onnxruntime

    levels, copy = onnxruntime.GraphOptimizationLevel, folder / "held.onnx"
    options.graph_optimization_level = levels.ORT_DISABLE_ALL if level is None else level
    options.optimized_model_filepath = str(copy)
    onnxruntime.InferenceSession(content, options, providers=_PROVIDERS)
    return onnx.load(copy)


def _rounds_weights(held: onnx.ModelProto, loaded: onnx.ModelProto) -> bool:
    """Tell whether the runtime rounds floats of a file as it loads it, which it does between pairs."""
    stored = {item.name for item in held.graph.initializer if item.data_type in _INTEGERS}
    fresh = {item.name for item in loaded.graph.initializer if item.data_type in _INTEGERS} - stored
    made = {
        node.output[0] for node in loaded.graph.node if node.op_type == "DequantizeLinear" and node.input[0] in fresh
    }
    return any(made & {*node.input[1:]} for node in loaded.graph.node if node.op_type in WEIGHED)


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
QUANTISER = RuntimeConsumer(_by_arguments, numerics=QUANTISER_NUMERICS)
