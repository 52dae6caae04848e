"""Put affinities into an `ov.Model`, and read them back.

Operators are matched by the names of their output tensors: OpenVINO keeps those of the ONNX file, and makes others for
operators that it adds. The openvino package is needed only by who holds a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from dovetail.errors import PlanError
from dovetail.formats.binding import Binding, Operation, bind_operations
from dovetail.ir.graph import Graph
from dovetail.plan.placement import HOST
from dovetail.plan.plan import Plan

_STATE = frozenset({"ReadValue", "Assign"})
AFFINITY = "affinity"


class _Output(Protocol):
    def get_names(self) -> set[str]: ...
    def get_node(self) -> _Op: ...
    def get_index(self) -> int: ...


class _Input(Protocol):
    def get_source_output(self) -> _Output: ...


class _Op(Protocol):
    def get_name(self) -> str: ...
    def get_friendly_name(self) -> str: ...
    def get_type_name(self) -> str: ...
    def get_attributes(self) -> dict[str, object]: ...
    def inputs(self) -> Sequence[_Input]: ...
    def outputs(self) -> Sequence[_Output]: ...
    def get_rt_info(self) -> dict[str, object]: ...


class OpenVinoModel(Protocol):
    """What is needed of `ov.Model`."""

    def get_ordered_ops(self) -> Sequence[_Op]: ...


class _CompiledModel(Protocol):
    def get_property(self, name: str) -> object: ...


def apply_affinities(model: OpenVinoModel, graph: Graph, plan: Plan, devices: Mapping[str, str]) -> None:
    """Give every operator of a model the device of its target; `devices` maps targets to OpenVINO device names.

    An operator that the plan does not know (OpenVINO adds some) goes with its only reader, else with what feeds it.
    Raises PlanError for a target without a device.
    """
    plan.check(graph)
    for target in plan.targets:
        if target not in devices:
            raise PlanError(f"no OpenVINO device is named for target '{target}'.")
    ops = list(model.get_ordered_ops())
    binding = bind_operators(model, graph)
    chosen: dict[str, str] = {}
    for op in ops:
        name = op.get_friendly_name()
        targets = {plan.placement(node).target for node in binding.nodes_of.get(name, ())}
        if targets:
            # An operator that stands for nodes of both sides goes where everything runs.
            chosen[name] = devices[HOST if len(targets) > 1 and HOST in targets else min(targets)]
    _fill(ops, chosen, devices[plan.default.target])
    _check_state(ops, chosen)
    for op in ops:
        op.get_rt_info()[AFFINITY] = chosen[op.get_friendly_name()]


def bind_operators(model: OpenVinoModel, graph: Graph) -> Binding:
    """Return the nodes that every operator of a model stands for, by friendly name."""
    return bind_operations(graph, list(_operations(model.get_ordered_ops())))


def _check_state(ops: Sequence[_Op], chosen: Mapping[str, str]) -> None:
    """Raise PlanError when a state would be read on one device and written on another, which OpenVINO cannot do."""
    readers: dict[str, _Op] = {}
    for op in ops:
        if op.get_type_name() not in _STATE:
            continue
        variable = str(op.get_attributes().get("variable_id", ""))
        other = readers.setdefault(variable, op)
        first, second = (chosen[one.get_friendly_name()] for one in (other, op))
        if first != second:
            raise PlanError(
                f"state '{variable}': '{other.get_friendly_name()}' is on {first} and '{op.get_friendly_name()}' on "
                f"{second}: a state cannot be cut.",
                hint="Place both on one device, with a [[group]] of the recipe or by one affinity.",
            )


def _fill(ops: Sequence[_Op], chosen: dict[str, str], default: str) -> None:
    """Give the operators that are left the device of their first known reader, else of what feeds them."""
    reader: dict[str, str] = {}
    for op in reversed(ops):
        name = op.get_friendly_name()
        if name not in chosen and name in reader and op.get_type_name() != "Result":
            chosen[name] = reader[name]
        if name in chosen:
            for source in _sources(op):
                reader[source.get_friendly_name()] = chosen[name]
    for op in ops:
        name = op.get_friendly_name()
        fed = next((chosen[source.get_friendly_name()] for source in _sources(op)), default)
        chosen.setdefault(name, fed)


def read_affinities(model: OpenVinoModel) -> Mapping[str, str]:
    """Return the device of every operator of a model, by friendly name; operators without one are left out."""
    affinities: dict[str, str] = {}
    for op in model.get_ordered_ops():
        info = op.get_rt_info()
        if AFFINITY in info:
            value = info[AFFINITY]
            # OpenVINO wraps values in its own OVAny.
            affinities[op.get_friendly_name()] = str(getattr(value, "value", value))
    return affinities


def _operations(ops: Sequence[_Op]) -> Iterator[Operation]:
    for op in ops:
        ins = tuple(name for source in op.inputs() for name in _names(source.get_source_output()))
        outs = tuple(name for output in op.outputs() for name in _names(output))
        kind = op.get_type_name()
        yield Operation(op.get_friendly_name(), kind, ins, () if kind == "Result" else outs)


def _names(output: _Output) -> list[str]:
    return sorted(output.get_names()) or [f"{output.get_node().get_friendly_name()}:{output.get_index()}"]


def _sources(op: _Op) -> Iterator[_Op]:
    return (source.get_source_output().get_node() for source in op.inputs())


def count_submodels(compiled: _CompiledModel) -> int:
    """Return into how many submodels HETERO did cut a compiled model."""
    return int(str(compiled.get_property("HETERO_NUMBER_OF_SUBMODELS")))
