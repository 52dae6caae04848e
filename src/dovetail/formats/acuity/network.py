"""Read an Acuity network file (`X.json`): layers, their names and what tensors they make.

A layer is called like the ONNX tensor that it makes, with a number that counts from the end of the graph; a fused one
like all of them: `c2.sg_35_c2.silu_31` makes `c2.silu`. The numbers change with every version and every change of the
graph: never keep them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dovetail.formats.binding import Binding, Operation, bind_operations
from dovetail.formats.text import mapping_in, read_json, texts_in
from dovetail.ir.graph import Graph

_NUMBER = re.compile(r"_\d+(?=_|$)")
CONSTANT = "variable"
_MARK = "_acuity_mark_perm_"
"""In the names of layouts' permutes that Acuity adds itself."""
_ENDS = frozenset({"input", "output"})


@dataclass(frozen=True, slots=True)
class AcuityLayer:
    """One layer; `inputs` are the layers that it reads."""

    lid: str
    name: str
    op: str
    inputs: tuple[str, ...]

    @property
    def possible_tensors(self) -> tuple[str, ...]:
        """Return the ONNX names that the tensor of this layer may have, the likeliest first."""
        parts = [part.strip("_") for part in _NUMBER.split(self.lid) if part.strip("_")]
        whole = re.sub(r"_\d+$", "", self.lid)
        return tuple(dict.fromkeys([whole, *reversed(parts), self.name]))


@dataclass(frozen=True)
class AcuityNetwork:
    """The layers of a network by their identifiers (lids)."""

    name: str
    layers: Mapping[str, AcuityLayer]

    @cached_property
    def readers(self) -> Mapping[str, tuple[str, ...]]:
        """Map a layer to the layers that read it."""
        readers: dict[str, list[str]] = {}
        for layer in self.layers.values():
            for source in layer.inputs:
                readers.setdefault(source, []).append(layer.lid)
        return {lid: tuple(users) for lid, users in readers.items()}

    def tensors(self, graph: Graph) -> Mapping[str, str]:
        """Return the source name of the tensor that each layer makes, where the graph has it."""
        known = {graph.origin_of(tensor) for tensor in graph.types}
        layers = [layer for layer in self._forward() if layer.op != "output" and _MARK not in layer.lid]
        taken: dict[str, str] = {}
        done: set[str] = set()
        # A name as a whole counts before a part of another one.
        for count in (1, None):
            for layer in layers:
                if layer.lid not in done:
                    names = layer.possible_tensors[:count]
                    found = next((name for name in names if name in known and name not in taken), None)
                    if found is not None:
                        taken[found] = layer.lid
                        done.add(layer.lid)
        return {lid: tensor for tensor, lid in taken.items()}

    def _forward(self) -> list[AcuityLayer]:
        """Return the layers from inputs to outputs: the file has them from the end."""
        done: dict[str, AcuityLayer] = {}
        waiting = list(self.layers)
        while waiting:
            layer = self.layers[waiting[-1]]
            missing = [lid for lid in layer.inputs if lid in self.layers and lid not in done and lid not in waiting]
            if missing:
                waiting += missing
            else:
                done.setdefault(waiting.pop(), layer)
        return list(done.values())

    def bind(self, graph: Graph) -> Binding:
        """Bind layers to nodes by tensors that both know."""
        tensors = self.tensors(graph)
        operations = [
            Operation(
                layer.lid,
                layer.op,
                tuple(tensors.get(lid, f"@{lid}") for lid in layer.inputs),
                () if layer.op in _ENDS else (tensors.get(layer.lid, f"@{layer.lid}"),),
            )
            for layer in self._forward()
        ]
        return bind_operations(graph, operations)

    def close(self, chosen: Mapping[str, str]) -> Mapping[str, str]:
        """Add the layers that must have the words of others: their constants, and what hands the result out.

        Acuity converts between two layers with different words; a constant or an output that keeps the old one would be
        such a border.
        """
        words = dict(chosen)
        for layer in self.layers.values():
            users = [words.get(lid) for lid in self.readers.get(layer.lid, ())]
            if layer.op == CONSTANT and users and users[0] is not None and len(set(users)) == 1:
                words.setdefault(layer.lid, users[0])
        for layer in self._forward():
            hands_on = layer.op == "output" or _MARK in layer.lid
            if hands_on and layer.inputs and layer.inputs[0] in words:
                words.setdefault(layer.lid, words[layer.inputs[0]])
        return {lid: words[lid] for lid in self.layers if lid in words}


def read_network(content: bytes, path: str) -> AcuityNetwork:
    """Return the network in a file; raise FormatError naming what is wrong."""
    root = mapping_in(read_json(content, path), path, "a network")
    meta = mapping_in(root.get("MetaData", {}), path, "MetaData")
    layers: dict[str, AcuityLayer] = {}
    for lid, value in mapping_in(root.get("Layers"), path, "Layers").items():
        body = mapping_in(value, path, f"layer '{lid}'")
        inputs = texts_in(body.get("inputs", []), path, f"inputs of '{lid}'")
        sources = tuple(text.removeprefix("@").rpartition(":")[0] for text in inputs)
        layers[lid] = AcuityLayer(lid, str(body.get("name", "")), str(body.get("op", "")), sources)
    return AcuityNetwork(str(meta.get("Name", "")), layers)
