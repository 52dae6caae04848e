"""Write a plan for Model Explorer: the graph, and one file of node data for what nodes can be coloured by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.ir import Graph
from dovetail.ir.text import print_type
from dovetail.plan import Plan
from dovetail.report.network import DrawnNetwork, NetworkUnit

_GRADIENT = ({"stop": 0, "bgColor": "#fef0d9"}, {"stop": 1, "bgColor": "#b30000"})
_HUES = ("#a6c8e4", "#ffd8a8", "#b2dfb0", "#dcc6e0", "#e0cfc2", "#f5b7b1", "#bfe5e1", "#f7e7a6")


@dataclass(frozen=True, slots=True)
class ExplorerFiles:
    """What Model Explorer opens, as JSON texts: the graph as a model, and node data by name."""

    graph: str
    node_data: Mapping[str, str]


def explorer_files(graph: Graph, plan: Plan, network: DrawnNetwork | None) -> ExplorerFiles:
    """Return a plan as Model Explorer's files; `network` adds what a search found, where there was one.

    Node data: `device` and `precision` (their order in the file), `bits`, and with a network `noise` and `ms`.
    """
    units = {} if network is None else {node: unit for unit in network.units for node in unit.nodes}
    name = graph.name or "model"
    document = {
        "kind": "dovetail-explorer",
        "label": name,
        "graphs": [{"id": name, "nodes": _nodes(graph, plan, units)}],
    }
    nodes = [node.name for node in graph.nodes]
    places = {node: plan.placement(node) for node in nodes}
    data: dict[str, dict[str, object]] = {
        "device": _words({node: place.target for node, place in places.items()}),
        "precision": _words({node: place.precision.value for node, place in places.items()}),
        "bits": {"results": {node: {"value": place.precision.bits} for node, place in places.items()}},
    }
    if network is not None:
        first = {unit.nodes[0]: unit for unit in network.units}
        noise = {node: unit.noise for node, unit in first.items() if unit.noise is not None}
        data["noise"] = _numbers(noise)
        data["ms"] = _numbers({n: unit.latency_ns / 1e6 for n, unit in first.items() if unit.latency_ns is not None})
    texts = {key: json.dumps({name: {"name": key, **value}}, indent=1) + "\n" for key, value in data.items()}
    return ExplorerFiles(json.dumps(document, indent=1, ensure_ascii=False) + "\n", texts)


def _words(words: Mapping[str, str]) -> dict[str, object]:
    """Return texts as node data: numbers in the order of their first use, each with a colour of its own."""
    known = list(dict.fromkeys(words.values()))
    return {
        "results": {
            node: {"value": known.index(word), "bgColor": _HUES[known.index(word) % len(_HUES)]}
            for node, word in words.items()
        }
    }


def _numbers(values: Mapping[str, float]) -> dict[str, object]:
    return {
        "results": {node: {"value": float(f"{value:.6g}")} for node, value in values.items()},
        "gradient": list(_GRADIENT),
    }


def _nodes(graph: Graph, plan: Plan, units: Mapping[str, NetworkUnit]) -> list[dict[str, object]]:
    made = {name: (node.name, str(index)) for node in graph.nodes for index, name in enumerate(node.outputs)}
    inputs = {name: f"input:{name}" for name in graph.inputs}
    nodes: list[dict[str, object]] = [
        _node(inputs[name], name, outputsMetadata=[_tensor(graph, name, 0)]) for name in graph.inputs
    ]
    for node in graph.nodes:
        edges = [
            {
                "sourceNodeId": made[name][0] if name in made else inputs[name],
                "sourceNodeOutputId": made[name][1] if name in made else "0",
                "targetNodeInputId": str(index),
            }
            for index, name in enumerate(node.inputs)
            if name in made or name in inputs
        ]
        nodes.append(
            _node(
                node.name,
                node.op,
                namespace="/".join(node.name.split("/")[:-1]),
                attrs=[{"key": key, "value": value} for key, value in _facts(plan, node.name, units).items()],
                incomingEdges=edges,
                outputsMetadata=[_tensor(graph, name, index) for index, name in enumerate(node.outputs) if name],
            )
        )
    for name in graph.outputs:
        source = made.get(name, (inputs.get(name, ""), "0"))
        edge = {"sourceNodeId": source[0], "sourceNodeOutputId": source[1], "targetNodeInputId": "0"}
        nodes.append(_node(f"output:{name}", name, incomingEdges=[edge] if source[0] else []))
    return nodes


def _node(key: str, label: str, **more: object) -> dict[str, object]:
    """Return a node with every field that the page reads: it does without none of them."""
    lists = ("subgraphIds", "attrs", "incomingEdges", "outputsMetadata", "inputsMetadata")
    return {"id": key, "label": label, "namespace": "", **{name: [] for name in lists}, **more}


def _tensor(graph: Graph, name: str, index: int) -> dict[str, object]:
    attrs = [{"key": "tensor_name", "value": name}, {"key": "type", "value": print_type(graph.types[name])}]
    return {"id": str(index), "attrs": attrs}


def _facts(plan: Plan, node: str, units: Mapping[str, NetworkUnit]) -> dict[str, str]:
    facts = {"place": str(plan.placement(node)), "reason": plan.reason(node)}
    unit = units.get(node)
    if unit is not None:
        facts |= {"unit": unit.name, "role": unit.role or "-"}
        facts |= {} if unit.noise is None else {"noise": f"{unit.noise:.4g}: {unit.noise_reason}"}
        facts |= {} if unit.latency_ns is None else {"ms of the unit": f"{unit.latency_ns / 1e6:.4g} ({unit.source})"}
        facts |= {} if unit.low is None else {"range": f"[{unit.low:.4g}, {unit.high:.4g}]"}
        facts |= {} if unit.score_without is None else {"score without it": f"{unit.score_without:.4g}"}
    return facts
