"""Acuity as the consumer of `.quantize` tables: the hybrid flow, in an environment of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dovetail.environments import ConversionJob, State, find_environment, run_job, state_of
from dovetail.errors import FormatError, LoadError
from dovetail.formats.acuity.beside import inputmeta_of
from dovetail.formats.acuity.inputmeta import read_inputmeta
from dovetail.formats.acuity.network import AcuityNetwork, read_network
from dovetail.formats.acuity.table import QuantizeTable, read_table, tensor_key
from dovetail.formats.consumer import (
    FLOAT,
    ConsumerReading,
    ConsumerRequest,
    OtherVersionError,
    ReadNode,
    judge_node,
    noise_inputs,
)
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph
from dovetail.ir.precision import Precision

ENVIRONMENT = "acuity"
VERSION = "6.57.1"
_LIMIT_S = 1800.0
_BASES = {
    Precision.U8: ("asymmetric_affine", "uint8"),
    Precision.I8: ("asymmetric_affine", "int8"),
    Precision.I8PC: ("perchannel_symmetric_affine", "int8"),
    Precision.I8DFP: ("dynamic_fixed_point", "int8"),
    Precision.I16: ("dynamic_fixed_point", "int16"),
}
_WHERE = "the exported file"


def is_here() -> bool:
    """Tell whether Acuity's environment is made."""
    return state_of(find_environment(ENVIRONMENT)).state is State.READY


@dataclass(frozen=True, slots=True)
class AcuityConsumer:
    """Import the user's ONNX file, quantise it low, and again with the layers that the table lists."""

    models: str = ".onnx"
    needs_model: bool = True

    def read(self, request: ConsumerRequest) -> ConsumerReading:
        """Return how Acuity stores every layer.

        Raises FormatError where it refuses the table or the network, and OtherVersionError where the network was made
        by another Acuity and is not the same here: layers may have other names then.
        """
        if request.model is None or request.listing is None:
            raise FormatError("it needs the ONNX file and its network.", path=_WHERE, line=0, code="CONSUMER")
        precision = request.plan.default.precision
        if precision not in _BASES:
            why = f"no quantiser of Acuity's is {precision.value} as a whole"
            raise FormatError(f"{why}.", path=_WHERE, line=0, code="CONSUMER")
        network = read_network(request.listing, "the network")
        if network.version in ("", VERSION):
            return _reading(request, request.model, network)
        where = f"the network is by Acuity {network.version}, and here is {VERSION}, which"
        try:
            reading = _reading(request, request.model, network)
        except FormatError as error:
            raise _other_version(f"{where} says: {error.detail}") from error
        if reading.disobeyed:
            raise _other_version(f"{where} makes another network of the model.")
        return reading


def _other_version(detail: str) -> OtherVersionError:
    return OtherVersionError(detail, path=_WHERE, line=0, code="CONSUMER", hint="Import the model with what is here.")


def _reading(request: ConsumerRequest, model: bytes, network: AcuityNetwork) -> ConsumerReading:
    feeds = list(request.samples or noise_inputs(request.graph))
    inputmeta = inputmeta_of(network, request.graph, shapes={name: feeds[0][name].shape for name in feeds[0]})
    runs = list(request.run)
    with tempfile.TemporaryDirectory(prefix="dovetail-") as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(model)
        files = [_saved(folder, number, item, request.graph) for number, item in enumerate([*feeds, *runs])]
        asked = {
            "path": str(folder / "model.onnx"),
            "label": "the model",
            "table": request.written.content.decode(),
            "samples": files[: len(feeds)],
            "runs": files[len(feeds) :],
            "inputmeta": inputmeta,
            "lists": [port.path for port in read_inputmeta(inputmeta.encode(), "inputmeta")],
            "base": _BASES[request.plan.default.precision],
        }
        job = ConversionJob("acuity_tables", asked, folder, _LIMIT_S)
        try:
            answer = run_job(state_of(find_environment(ENVIRONMENT)), job, lambda _step, _share: None)
        except LoadError as error:
            message = error.message.rstrip(".")
            raise FormatError(f"Acuity refuses it: {message}.", path=_WHERE, line=0, code="CONSUMER") from error
        table = read_table((folder / str(answer["table"])).read_bytes(), "Acuity's table")
        outputs = tuple(_outputs(folder / str(answer["outputs"]), request.graph, len(runs)))
    nodes = tuple(_compared(request, network, table))
    return ConsumerReading(f"Acuity {VERSION}", nodes, outputs, notes=tuple(_complaints(answer)))


def _complaints(answer: Mapping[str, object]) -> Iterator[str]:
    conflicts = answer["conflicts"]
    assert isinstance(conflicts, list)
    for layer in conflicts:
        yield f"conflict to quantize tensor of '{layer}': Acuity then leaves most of the list undone"


def _saved(folder: Path, number: int, feeds: Mapping[str, AnyArray], graph: Graph) -> list[str]:
    files = []
    for place, name in enumerate(graph.inputs):
        path = folder / f"{number}_{place}.npy"
        np.save(path, feeds[name])
        files.append(str(path))
    return files


def _outputs(path: Path, graph: Graph, count: int) -> Iterator[Mapping[str, AnyArray]]:
    with np.load(path, allow_pickle=False) as arrays:
        for number in range(count):
            yield {name: arrays[f"{number}_{place}"] for place, name in enumerate(graph.outputs)}


def _compared(request: ConsumerRequest, network: AcuityNetwork, table: QuantizeTable) -> Iterator[ReadNode]:
    """Yield every node that a layer of reals stands for, beside the types of the layer's output and weights."""
    plan, nodes = request.plan, {node.name: node for node in request.graph.nodes}
    layers: dict[str, list[str]] = {}
    for lid, found in network.bind(request.graph).nodes_of.items():
        for name in found:
            layers.setdefault(name, []).append(lid)
    for name, lids in layers.items():
        node, precision = nodes[name], plan.placement(name).precision
        if not any(request.graph.types[tensor].holds_reals for tensor in node.outputs if tensor):
            continue
        pairs: list[tuple[str, str]] = []
        for lid in lids:
            kind = precision.activation.dtype.value if precision.is_quantized else FLOAT
            pairs.append((kind, _given(table, lid, "out0")))
            weight = tensor_key(lid, "weight")
            if weight in table.parameters:
                pairs.append(
                    (precision.weight.dtype.value if precision.is_quantized else FLOAT, _given(table, lid, "weight"))
                )
        yield judge_node(node, precision, pairs)


def _given(table: QuantizeTable, lid: str, port: str) -> str:
    found = table.parameters.get(tensor_key(lid, port))
    return FLOAT if found is None or found.qtype.startswith(("float", "bfloat")) else found.qtype


ACUITY = AcuityConsumer()
