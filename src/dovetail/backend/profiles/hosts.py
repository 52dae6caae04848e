"""The CPUs beside the NPUs, and the way between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.errors import CostError, suggestion


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What a CPU sustains on all its cores, and what leaving it for the NPU costs.

    `overhead_ns` is the dispatch of one operator; `link_bytes_per_s` the copy between the buffers of CPU and NPU;
    `switch_ns` the submission of one partition and the wait for its interrupt.
    """

    name: str
    title: str
    float_macs_per_s: float
    byte_macs_per_s: float
    elements_per_s: float
    bytes_per_s: float
    overhead_ns: float
    link_bytes_per_s: float
    switch_ns: float
    source: str


_SHARE = 0.4
"""Share of the peak that ONNX Runtime's kernels are taken to reach."""


@dataclass(frozen=True, slots=True)
class _Core:
    """Multiply-accumulates a cycle at float32 and at 8 bits, by the width of the vector unit."""

    title: str
    float_macs: float
    byte_macs: float


_A7 = _Core("Cortex-A7", 2, 8)
_A53 = _Core("Cortex-A53", 4, 8)
_A73 = _Core("Cortex-A73", 4, 16)
_X86 = _Core("x86-64 with AVX2", 16, 32)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Cores that work together, their clock, and the memory bandwidth that they see."""

    core: _Core
    cores: int
    clock_hz: float
    bytes_per_s: float


def _host(name: str, cluster: _Cluster, switch_ns: float) -> HostFacts:
    core, cores, cycles = cluster.core, cluster.cores, cluster.cores * cluster.clock_hz
    return HostFacts(
        name=name,
        title=f"{cores} x {core.title} at {cluster.clock_hz / 1e9:g} GHz",
        float_macs_per_s=_SHARE * core.float_macs * cycles,
        byte_macs_per_s=_SHARE * core.byte_macs * cycles,
        elements_per_s=_SHARE * core.float_macs * cycles,
        bytes_per_s=cluster.bytes_per_s,
        overhead_ns=5_000 * 2e9 / cluster.clock_hz,
        link_bytes_per_s=cluster.bytes_per_s / 2,
        switch_ns=switch_ns,
        source=(
            f"stated: {cores} x {core.title} at {cluster.clock_hz / 1e9:g} GHz at {_SHARE:.0%} of the vector units' "
            f"peak, {cluster.bytes_per_s / 1e9:g} GB/s, {switch_ns / 1e3:g} us a partition; nothing was measured"
        ),
    )


HOSTS: Mapping[str, HostFacts] = {
    host.name: host
    for host in (
        _host("cortex-a7", _Cluster(_A7, 1, 1.0e9, 1.0e9), 200_000),
        _host("cortex-a53x4", _Cluster(_A53, 4, 1.8e9, 4.0e9), 120_000),
        _host("cortex-a73x4", _Cluster(_A73, 4, 2.2e9, 4.0e9), 100_000),
        _host("x86", _Cluster(_X86, 2, 2.5e9, 10.0e9), 20_000),
    )
}
"""Every CPU that is known, by name."""


def find_host(name: str) -> HostFacts:
    """Return the facts of a CPU; raise CostError naming those that are known."""
    if name not in HOSTS:
        raise CostError(f"host '{name}' is unknown.", hint=suggestion(name, sorted(HOSTS)))
    return HOSTS[name]


_BESIDE = {
    "vsi:v853": "cortex-a7",
    "vsi:a311d": "cortex-a73x4",
    "vsi:imx8mp": "cortex-a53x4",
    # The nearest of the CPUs above; none is the chip's own.
    "vsi:s905d3": "cortex-a53x4",
    "vsi:rv1126": "cortex-a7",
    "vsi:rk1808": "cortex-a53x4",
    "vsi:t527": "cortex-a53x4",
    "vsi:a733": "cortex-a73x4",
    "vsi:stm32mp2": "cortex-a53x4",
}


def host_beside(target: str) -> HostFacts:
    """Return the CPU that shares a chip with a target; a PC where none is known."""
    return HOSTS[_BESIDE.get(target, "x86")]
