"""The files that pegasus wants beside a network: how inputs are made, what is done with outputs, golden tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail.errors import FormatError
from dovetail.formats.acuity.inputmeta import InputPort, write_inputmeta
from dovetail.formats.acuity.network import AcuityNetwork
from dovetail.formats.acuity.postprocess import OutputPort, write_postprocess
from dovetail.formats.acuity.tensors import tensor_file_name
from dovetail.ir.dtypes import AnyArray
from dovetail.ir.graph import Graph

_OUT = "out0"


@dataclass(frozen=True, slots=True)
class PixelScaling:
    """How an image becomes an input: (pixel - mean) * scale, with the channels turned round or not."""

    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    reverse_channel: bool = False
    layout: str = ""
    """Empty takes the one in which one or three channels are where they ought to be."""


def input_lids(network: AcuityNetwork, graph: Graph) -> Mapping[str, str]:
    """Map inputs of a graph to the layers that hand them over; raise FormatError where one has none."""
    inputs = [layer for layer in network.layers.values() if layer.op == "input"]
    found: dict[str, str] = {}
    for name in graph.inputs:
        origin = graph.origin_of(name)
        layer = next((item for item in inputs if origin in item.possible_tensors), None)
        if layer is None:
            raise _missing(f"input '{origin}'")
        found[name] = layer.lid
    return found


def output_lids(network: AcuityNetwork, graph: Graph) -> Mapping[str, str]:
    """Map outputs of a graph to the layers `attach_...` that hand them out; raise FormatError where one has none."""
    made = {tensor: lid for lid, tensor in network.tensors(graph).items()}
    outputs = [layer for layer in network.layers.values() if layer.op == "output"]
    found: dict[str, str] = {}
    for name in graph.outputs:
        origin = graph.origin_of(name)
        known = {made.get(origin), *(item.lid for item in network.layers.values() if origin in item.possible_tensors)}
        layer = next((item for item in outputs if network.handed_on(item.lid) & known), None)
        if layer is None:
            raise _missing(f"output '{origin}'")
        found[name] = layer.lid
    return found


def _missing(what: str) -> FormatError:
    return FormatError(
        f"the network has no layer for {what}.",
        path="the network",
        line=0,
        code="LISTING",
        hint="Is it the .json that 'pegasus import' wrote of this model?",
        option="listing",
    )


def inputmeta_of(
    network: AcuityNetwork,
    graph: Graph,
    pixels: PixelScaling | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> str:
    """Return inputmeta.yml: a database for each input, of images where their scaling is said, else of arrays.

    Each reads its own list of files, dataset.txt or dataset0.txt and so on. `shapes` are those of the arrays, for
    inputs without a fixed size; raise FormatError where one has none.
    """
    lids = input_lids(network, graph)
    ports = [
        _input_port(
            lid,
            _static(graph, name) if shapes is None else shapes[name],
            "dataset.txt" if len(lids) == 1 else f"dataset{number}.txt",
            pixels,
        )
        for number, (name, lid) in enumerate(lids.items())
    ]
    return write_inputmeta(ports)


def _input_port(lid: str, shape: tuple[int, ...], path: str, pixels: PixelScaling | None) -> InputPort:
    extra: dict[str, object] = {"sparse": False, "tensor_name": None, "redirect_to_output": False}
    if pixels is None or len(shape) != 4:
        return InputPort(lid, shape, category="undefined", path=path, extra=extra)
    layout = pixels.layout or ("nhwc" if shape[-1] in (1, 3) and shape[1] not in (1, 3) else "nchw")
    return InputPort(
        lid,
        shape,
        mean=pixels.mean,
        scale=pixels.scale,
        layout=layout,
        reverse_channel=pixels.reverse_channel,
        path=path,
        extra=extra,
    )


def postprocess_of(network: AcuityNetwork, graph: Graph) -> str:
    """Return the postprocess file: outputs as they are, in float."""
    lids = output_lids(network, graph)
    return write_postprocess([OutputPort(lid, tuple(range(len(_static(graph, name))))) for name, lid in lids.items()])


def _static(graph: Graph, name: str) -> tuple[int, ...]:
    shape = graph.types[name].static_shape
    if shape is None:
        raise FormatError(
            f"'{name}' has no fixed size.",
            path="the model",
            line=0,
            code="SHAPE",
            hint="Fix the sizes of the inputs.",
            option="shape",
        )
    return shape


def golden_files(
    network: AcuityNetwork,
    graph: Graph,
    iteration: int,
    feeds: Mapping[str, AnyArray],
    outputs: Mapping[str, AnyArray],
) -> Iterator[tuple[str, bytes]]:
    """Yield what `pegasus inference` dumps of one sample: a text file for every input and output, one value a line."""
    pairs = [(lid, feeds[name]) for name, lid in input_lids(network, graph).items()]
    pairs += [(lid, outputs[name]) for name, lid in output_lids(network, graph).items()]
    for lid, array in pairs:
        values = np.asarray(array)
        text = "".join(f"{value:.9g}\n" for value in values.reshape(-1).tolist())
        yield tensor_file_name(lid, _OUT, values.shape, iteration), text.encode()
