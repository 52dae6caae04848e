"""Where Paddle Lite runs each operator: NPU in 8 bits, NPU in float, or CPU; two files say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dovetail.formats.paddle.log import LoggedOperation
from dovetail.formats.paddle.rules import Dialect, SubgraphRule, match_all
from dovetail.formats.paddle.writer import write_rules


class PaddleDevice(Enum):
    """The three ways to run an operator."""

    NPU_INT8 = "npu_int8"
    NPU_FP32 = "npu_fp32"
    CPU = "cpu"


@dataclass(frozen=True)
class Policy:
    """Place every operator of a log, in its order."""

    operations: tuple[LoggedOperation, ...]
    devices: tuple[PaddleDevice, ...]

    def chosen(self, device: PaddleDevice) -> tuple[LoggedOperation, ...]:
        """Return the operators of one device."""
        return tuple(op for op, one in zip(self.operations, self.devices, strict=True) if one is device)

    def subgraph_text(self, dialect: Dialect = Dialect.V212, path: str = "subgraph.txt") -> str:
        """Return subgraph.txt: the operators on the CPU."""
        return write_rules(self.chosen(PaddleDevice.CPU), self.operations, dialect, path)

    def mixed_text(self, dialect: Dialect = Dialect.V212, path: str = "mixed.txt") -> str:
        """Return the mixed-precision file: the operators on the NPU in float."""
        return write_rules(self.chosen(PaddleDevice.NPU_FP32), self.operations, dialect, path)

    def counts(self) -> Mapping[PaddleDevice, int]:
        """Return how many operators each device has."""
        return {device: self.devices.count(device) for device in PaddleDevice}


def policy_of(
    operations: Sequence[LoggedOperation], subgraph: Sequence[SubgraphRule], mixed: Sequence[SubgraphRule] = ()
) -> Policy:
    """Return what two files say together: an operator in both runs on the CPU, in float."""
    cpu = {id(op) for op in match_all(subgraph, operations)}
    fp32 = {id(op) for op in match_all(mixed, operations)}
    devices = tuple(
        PaddleDevice.CPU if id(op) in cpu else PaddleDevice.NPU_FP32 if id(op) in fp32 else PaddleDevice.NPU_INT8
        for op in operations
    )
    return Policy(tuple(operations), devices)
