"""Names and numbers of our messages are those of another client, compiled from the protocol's own files."""

from __future__ import annotations

from typing import Any

import pytest
from tritonclient.grpc import model_config_pb2, service_pb2

from dovetail.oip.messages import INFERENCE, calls, message_pool

THEIRS = {
    kind.full_name: kind
    for room in (service_pb2, model_config_pb2)
    for kind in room.DESCRIPTOR.message_types_by_name.values()
}


def fields(kind: Any) -> dict[str, tuple[object, ...]]:
    """What of a message is seen on the wire."""
    return {
        field.name: (
            field.number,
            field.type,
            field.is_repeated,
            field.message_type.full_name if field.message_type else None,
            field.containing_oneof.name if field.containing_oneof else None,
        )
        for field in kind.fields
    }


def pairs(ours: Any, theirs: Any) -> list[tuple[Any, Any]]:
    """A message and those inside it, with theirs."""
    found = [(ours, theirs)]
    for inner in ours.nested_types:
        found += pairs(inner, theirs.nested_types_by_name[inner.name])
    return found


OURS = message_pool().FindFileByName("open_inference.proto").message_types_by_name


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_message_is_theirs(name: str) -> None:
    for ours, theirs in pairs(OURS[name], THEIRS[f"inference.{name}"]):
        known = fields(theirs)
        assert fields(ours) == {key: known.get(key) for key in fields(ours)}


def test_numbers_of_types_are_theirs() -> None:
    ours = message_pool().FindEnumTypeByName("inference.DataType").values_by_name
    theirs = model_config_pb2.DESCRIPTOR.enum_types_by_name["DataType"].values_by_name
    assert {name: value.number for name, value in ours.items()} == {
        name: value.number for name, value in theirs.items()
    }


def test_calls_are_theirs() -> None:
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    mine = {name: call for name, call in calls().items() if call.service == INFERENCE}
    assert len(mine) == 14
    for name, call in mine.items():
        assert call.request.DESCRIPTOR.full_name == theirs[name].input_type.full_name
        assert call.response.DESCRIPTOR.full_name == theirs[name].output_type.full_name
