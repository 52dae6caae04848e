"""Affinities as JSON: a device for the tensor that every node makes.

A result of `Core.query_model`, `{name of an operator: device}`, is read too. OpenVINO has no file for affinities of its
own: `apply_affinities` puts them into an `ov.Model`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dovetail.errors import FormatError
from dovetail.formats.binding import Binding, bind_sources, bind_tensors
from dovetail.formats.entries import placement_of
from dovetail.formats.format import Diagnostic, ReadRequest, WriteRequest, Written, lint_by_reading
from dovetail.formats.spelling import Vocabulary, read_plan, spell
from dovetail.formats.text import json_bytes, mapping_in, read_json, wrong_shape
from dovetail.formats.words import two_sides
from dovetail.ir.graph import Graph
from dovetail.plan.plan import Override, Plan

_WORDS = two_sides("NPU", "CPU")
_NPU, _CPU = _WORDS.base
_KEY = "affinities"


@dataclass(frozen=True, slots=True)
class AffinityFormat:
    """Write a device for every node: partial annotation is an error in OpenVINO."""

    name: str = "openvino"
    title: str = "OpenVINO: affinities"
    pattern: str = "*affinit*.json"
    granularity: str = "output tensor of an operator"
    vocabulary: Vocabulary = _WORDS
    needs: str = ""

    def write(self, request: WriteRequest) -> Written:
        """Return the device of every tensor that a node makes."""
        graph = request.graph
        binding = self.binding(request)
        spelling = spell(request.plan, graph, binding, self.vocabulary)
        base = spelling.base_word.text
        devices = {item: spelling.words[item].text if item in spelling.words else base for item in binding.nodes_of}
        order = [name for name in (_NPU.text, _CPU.text) if name in devices.values()]
        return Written(json_bytes({"device": f"HETERO:{','.join(order)}", _KEY: devices}))

    def binding(self, request: WriteRequest) -> Binding:
        """Return the nodes that every tensor stands for, and those that one node of the source became with them."""
        graph = request.graph
        whole = {name: nodes for nodes in bind_sources(graph).nodes_of.values() for name in nodes if len(nodes) > 1}
        named = bind_tensors(graph).nodes_of
        return Binding({item: tuple(dict.fromkeys(_wholes(nodes, whole))) for item, nodes in named.items()})

    def read(self, content: bytes, request: ReadRequest) -> Plan:
        """Return the plan; raise FormatError when a node has no device."""
        graph = request.graph
        devices, exact = self._devices(content, request.path)
        binding = _bind(graph)
        overrides: dict[str, Override] = {}
        covered: set[str] = set()
        for name, device in devices.items():
            if exact:
                binding.require(name, path=request.path, line=0, code="UNKNOWN_NAME")
            nodes = binding.nodes_of.get(name, ())
            covered.update(nodes)
            if nodes and device == _CPU.text:
                overrides[name] = Override(placement_of(_CPU, request), f"{request.path}: {name}")
        missing = [node for node in graph.nodes if node.name not in covered]
        if missing:
            raise FormatError(
                f"{missing[0].label} has no device, nor have {len(missing) - 1} others.",
                path=request.path,
                line=0,
                code="UNASSIGNED",
                hint="OpenVINO wants a device for every operator: start from query_model.",
            )
        return read_plan(graph, binding, request.base, overrides)

    def lint(self, content: bytes, request: ReadRequest) -> tuple[Diagnostic, ...]:
        """Return what is wrong in the file."""
        return lint_by_reading(self, content, request)

    def _devices(self, content: bytes, path: str) -> tuple[Mapping[str, str], bool]:
        document = mapping_in(read_json(content, path), path, "affinities")
        inner = document.get(_KEY)
        exact = isinstance(inner, dict)
        devices = mapping_in(inner, path, _KEY) if exact else document
        device_of: dict[str, str] = {}
        for name, device in devices.items():
            if not isinstance(device, str) or not device:
                raise wrong_shape(path, f"the device of '{name}'", "a device name")
            # Any device that is not the CPU is the accelerator: NPU, GPU.1, ...
            device_of[name] = _CPU.text if device == _CPU.text else _NPU.text
        return device_of, exact


def _wholes(nodes: Iterable[str], whole: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name in nodes:
        yield from whole.get(name, (name,))


def _bind(graph: Graph) -> Binding:
    """Bind by tensors and, as OpenVINO's operators have the names of ONNX nodes, by source names."""
    return Binding({**bind_sources(graph).nodes_of, **bind_tensors(graph).nodes_of})


FORMAT = AffinityFormat()
