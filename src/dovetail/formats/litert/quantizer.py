"""AI Edge Quantizer as the consumer of recipes, and LiteRT of the file that it makes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.errors import FormatError
from dovetail.formats.consumer import ConsumerReading, ConsumerRequest, noise_inputs
from dovetail.formats.litert.numerics import EDGE_NUMERICS
from dovetail.formats.litert.operators import file_operators
from dovetail.formats.litert.stored import StoredFile, compare_operators, open_file, run_file
from dovetail.formats.numerics import ToolNumerics
from dovetail.formats.text import read_json
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT

_SIGNATURE = "serving_default"
Feeds = Sequence[Mapping[str, AnyArray]]


@dataclass(frozen=True, slots=True)
class EdgeConsumer:
    """Quantise the user's TFLite model by the recipe, and load what comes out in LiteRT."""

    models: str = ".tflite"
    needs_model: bool = True
    numerics: ToolNumerics | None = EDGE_NUMERICS

    def read(self, request: ConsumerRequest) -> ConsumerReading:
        """Return what LiteRT has; raise FormatError where the quantiser refuses the recipe or the model."""
        from importlib.metadata import version

        if request.model is None:
            raise FormatError("it needs a TFLite model.", path="the exported file", line=0, code="CONSUMER")
        graph, feeds = request.graph, request.samples or noise_inputs(request.graph)
        try:
            stored = open_file(quantised_model(request.model, graph, request.written.content, feeds))
            outputs = tuple(run_file(stored, graph, item) for item in request.run)
        except FormatError:
            raise
        except Exception as error:  # the quantiser's and LiteRT's errors have no common type
            message = (str(error).splitlines() or [type(error).__name__])[0].strip().rstrip(".")
            raise FormatError(
                f"AI Edge Quantizer refuses it: {message}.", path="the exported file", line=0, code="CONSUMER"
            ) from error
        file = file_operators(request.model, "the model")
        nodes = tuple(compare_operators(graph, request.plan, file, StoredFile(stored)))
        name = f"AI Edge Quantizer {version('ai-edge-quantizer')}, LiteRT {version('ai-edge-litert')}"
        return ConsumerReading(name, nodes, outputs)


def quantised_model(model: bytes, graph: Graph, recipe: bytes, feeds: Feeds) -> bytes:
    """Return the model that a recipe makes of a float one."""
    from ai_edge_quantizer.quantizer import Quantizer

    signed, key, names = _with_signature(model)
    samples = [dict(zip(names, (item[name] for name in graph.inputs), strict=True)) for item in feeds]
    # It shows progress and a table of sizes.
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        quantizer = Quantizer(signed)
        quantizer.load_quantization_recipe(read_json(recipe, "the exported file"))
        found = quantizer.calibrate({key: samples}) if quantizer.need_calibration else None
        return bytes(quantizer.quantize(found, enable_progress_report=False).quantized_model)


def _with_signature(content: bytes) -> tuple[bytes, str, list[str]]:
    """Return a model with a signature, without which the quantiser cannot calibrate, and the names in the order of
    the model's inputs."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model: ModelT = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))
    network = model.subgraphs[0]
    for held in model.signatureDefs or ():
        by_index = {item.tensorIndex: item.name for item in held.inputs}
        if held.subgraphIndex == 0 and all(index in by_index for index in network.inputs):
            return content, held.signatureKey.decode(), [by_index[index].decode() for index in network.inputs]
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = _SIGNATURE.encode(), 0
    signature.inputs = [_entry(f"input{number}", index) for number, index in enumerate(network.inputs)]
    signature.outputs = [_entry(f"output{number}", index) for number, index in enumerate(network.outputs)]
    model.signatureDefs = [signature]
    builder = flatbuffers.Builder(len(content) + 1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()), _SIGNATURE, [f"input{number}" for number in range(len(network.inputs))]


def _entry(name: str, index: int) -> object:
    from ai_edge_litert import schema_py_generated as schema

    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name.encode(), index
    return entry


EDGE = EdgeConsumer()
