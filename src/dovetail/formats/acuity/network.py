"""Read an Acuity network file (`X.json`): layers, their names and what tensors they make.

A layer is called like the ONNX tensor that it makes, with a number that counts from the end of the graph; a fused one
like all of them: `c2.sg_35_c2.silu_31` makes `c2.silu`, and `800_378_801_374`, where tensors are called by numbers,
makes `801`. The numbers change with every version and every change of the graph: never keep them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from dovetail.formats.acuity.words import ROUNDED
from dovetail.formats.binding import Binding, Operation, bind_operations
from dovetail.formats.text import mapping_in, read_json, texts_in
from dovetail.ir.graph import Graph

_NUMBER = re.compile(r"_\d+(?=_|$)")
_MOST_NUMBERS = 8
"""In the name of a layer, of which any may end the name of a tensor: tensors have names like numbers too."""
CONSTANT = "variable"
_MARK = "_acuity_mark_perm_"
"""In the names of layouts' permutes that Acuity adds itself."""
_FLOAT_ENDS = frozenset(
    {"softmax", "log_softmax", "tanh", "exp", "log", "sqrt", "pow", "erf", "elu", "selu", "celu", "softrelu"}
    | {"sin", "cos", "floor", "abs", "neg", "reciprocal", "reducemean", "reducesum", "reducemax", "l2normalize"}
)
"""Operators that Acuity does not quantise at the end of a network, each tried (6.57.1); sigmoids, rectifiers, products,
sums and pools it does."""
_ENDS = frozenset({"input", "output"})
_MOVES = frozenset({"permute", "reshape", "slice", "stridedslice", "gather", "tile", "depth2space"})
_SPLIT = "split"
"""Moves as well, but a conversion finds a place before and behind it, unless it is the first layer."""
_CHOOSES = {"pooling": "MAX", "image_resize": "nearest"}
"""Operators that hand values on as they are when they are of this type."""


@dataclass(frozen=True, slots=True)
class AcuityLayer:
    """One layer; `inputs` are the layers that it reads, `kind` is the type that some operators have."""

    lid: str
    name: str
    op: str
    inputs: tuple[str, ...]
    kind: str = ""

    @property
    def moves(self) -> bool:
        """Tell whether it stores what it reads as that was stored.

        Acuity finds no place for a conversion between two such layers, or between an input and one: it says "conflict
        to quantize tensor" and leaves the network as it was.
        """
        return self.op in _MOVES or (self.op in _CHOOSES and self.kind == _CHOOSES[self.op])

    @property
    def possible_tensors(self) -> tuple[str, ...]:
        """Return the ONNX names that the tensor of this layer may have, the likeliest first.

        They are what stands between two numbers, or between the start and one: what was fused last, and most of it.
        """
        numbers = list(_NUMBER.finditer(self.lid))[-_MOST_NUMBERS:]
        starts = [0, *(number.end() + 1 for number in numbers)]
        names = [self.lid[start : end.start()] for end in reversed(numbers) for start in starts if start < end.start()]
        return tuple(dict.fromkeys([*names, self.name]))


@dataclass(frozen=True)
class AcuityNetwork:
    """The layers of a network by their identifiers (lids)."""

    name: str
    layers: Mapping[str, AcuityLayer]
    version: str = ""
    """Of the Acuity that made it; empty where the file does not say."""

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
        """Return the layers from inputs to outputs: the file has them from the end, but permutes that it added last."""
        done: dict[str, AcuityLayer] = {}
        opened: set[str] = set()
        waiting = list(self.layers)
        while waiting:
            lid = waiting[-1]
            layer = self.layers[lid]
            opened.add(lid)
            # What is open and not done reads this layer itself: a file may have circles.
            missing = [source for source in layer.inputs if source in self.layers and source not in opened]
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
        nodes_of = dict(bind_operations(graph, operations).nodes_of)
        # Permutes that Acuity added get their words from what they stand beside: `close` says them.
        nodes_of.update({lid: () for lid in self.layers if _MARK in lid})
        order = {node.name: place for place, node in enumerate(graph.nodes)}
        for chain in self.chains:
            nodes = sorted({name for lid in chain for name in nodes_of[lid]}, key=order.__getitem__)
            nodes_of.update({lid: tuple(nodes) for lid in chain if nodes_of[lid]})
        return Binding(nodes_of, lacks=dict.fromkeys(self.floats, ROUNDED))

    @cached_property
    def floats(self) -> tuple[str, ...]:
        """Return the layers that Acuity computes in float whatever a table says.

        They are a softmax, a function or a reduction at the end, and what moves its result to the outputs.
        """
        found: list[str] = []
        for layer in reversed(self._forward()):
            users = self.readers.get(layer.lid, ())
            ends = bool(users) and all(self.layers[user].op == "output" or user in found for user in users)
            moves = layer.moves and self._moved_from(layer.lid) in _FLOAT_ENDS
            if ends and (layer.op in _FLOAT_ENDS or moves):
                found.append(layer.lid)
        return tuple(found)

    def _moved_from(self, lid: str) -> str:
        """Return the operator whose result a layer moves."""
        while self.layers[lid].moves and self.layers[lid].inputs[0] in self.layers:
            lid = self.layers[lid].inputs[0]
        return self.layers[lid].op

    def handed_on(self, lid: str) -> set[str]:
        """Return the layers that one reads, also through permutes that Acuity added."""
        found, waiting = set[str](), list(self.layers[lid].inputs)
        while waiting:
            source = waiting.pop()
            if source in self.layers and source not in found:
                found.add(source)
                waiting += self.layers[source].inputs if _MARK in source else ()
        return found

    @cached_property
    def chains(self) -> tuple[tuple[str, ...], ...]:
        """Return the layers that have to be stored alike: movers in a row, and the inputs before them."""
        chain_of: dict[str, list[str]] = {}
        for layer in self._forward():
            if layer.lid not in self._movers:
                continue
            chain_of.setdefault(layer.lid, [layer.lid])
            for source in layer.inputs[:1]:
                if self._hands_on(source):
                    one, other = chain_of.setdefault(source, [source]), chain_of[layer.lid]
                    if one is not other:
                        one += other
                        chain_of.update(dict.fromkeys(other, one))
        return tuple(tuple(chain) for chain in {id(chain): chain for chain in chain_of.values()}.values())

    def conflicts(self, words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield pairs of layers, one behind the other, whose words differ though nothing can convert between them."""
        for layer in self.layers.values():
            for source in layer.inputs[:1] if layer.lid in self._movers else ():
                if self._hands_on(source) and words.get(source) != words.get(layer.lid):
                    yield source, layer.lid

    def _hands_on(self, lid: str) -> bool:
        """Tell whether a layer is an input, or only moves what it reads."""
        return lid in self._movers or (lid in self.layers and self.layers[lid].op == "input")

    @cached_property
    def _movers(self) -> frozenset[str]:
        """Return the layers that store what they read as that was stored."""
        first = {
            layer.lid
            for layer in self.layers.values()
            if layer.op == _SPLIT and any(self.layers[lid].op == "input" for lid in self.handed_on(layer.lid))
        }
        return frozenset(first | {layer.lid for layer in self.layers.values() if layer.moves})

    def _is_index(self, lid: str) -> bool:
        """Tell whether a constant only says places in another tensor."""
        users = [self.layers[user] for user in self.readers.get(lid, ()) if user in self.layers]
        return bool(users) and all(user.op in _INDEXED and user.inputs.index(lid) > 0 for user in users)

    def close(self, chosen: Mapping[str, str]) -> Mapping[str, str]:
        """Add the layers that must have the words of others: their constants, and what hands the result out.

        Acuity converts between two layers with different words; a constant or an output that keeps the old one would be
        such a border. Indices are integers and have no word. What only moves goes together.
        """
        words = dict(chosen)
        for layer in self.layers.values():
            users = {words.get(lid) for lid in self.readers.get(layer.lid, ())}
            word = users.pop() if len(users) == 1 else None
            if layer.op == CONSTANT and word is not None and not self._is_index(layer.lid):
                words.setdefault(layer.lid, word)
        for layer in self._forward():
            hands_on = layer.op == "output" or _MARK in layer.lid
            if hands_on and layer.inputs and layer.inputs[0] in words:
                words.setdefault(layer.lid, words[layer.inputs[0]])
        for chain in self.chains:
            # The graph's own layers decide; an input that only Acuity's permutes read keeps the base.
            own = next((lid for lid in chain if _MARK not in lid and self.layers[lid].op != "input"), chain[0])
            for lid in chain:
                words.pop(lid, None) if own not in words else words.update({lid: words[own]})
        return {lid: words[lid] for lid in self.layers if lid in words}


_INDEXED = frozenset({"gather", "gather_elements", "gather_nd", "scatter_nd", "one_hot", "embedding_lookup"})


def read_network(content: bytes, path: str) -> AcuityNetwork:
    """Return the network in a file; raise FormatError naming what is wrong."""
    root = mapping_in(read_json(content, path), path, "a network")
    meta = mapping_in(root.get("MetaData", {}), path, "MetaData")
    layers: dict[str, AcuityLayer] = {}
    for lid, value in mapping_in(root.get("Layers"), path, "Layers").items():
        body = mapping_in(value, path, f"layer '{lid}'")
        inputs = texts_in(body.get("inputs", []), path, f"inputs of '{lid}'")
        sources = tuple(text.removeprefix("@").rpartition(":")[0] for text in inputs)
        parameters = mapping_in(body.get("parameters") or {}, path, f"parameters of '{lid}'")
        kind = str(parameters.get("type", ""))
        layers[lid] = AcuityLayer(lid, str(body.get("name", "")), str(body.get("op", "")), sources, kind)
    return AcuityNetwork(str(meta.get("Name", "")), layers, str(meta.get("AcuityVersion", "")))
