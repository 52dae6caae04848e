"""Arrays that OpenVINO cannot take as they are live as long as it reads them."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.backend.protocols import CompileOptions
from dovetail.backend.registry import backend, find_target
from dovetail.ir import AnyArray, parse_graph
from dovetail.testing.agreement import load_on

GRAPH = """graph "g" opset 21
input "x": f32[1, 4096]
input "y": f32[1, 4096]
input "z": f32[1, 4096]
"a" = Sub("x", "y") -> ("t": f32[1, 4096])
"b" = Sub("t", "z") -> ("u": f32[1, 4096])
output "u"
end
"""


def _copied(value: float, how: str) -> AnyArray:
    """Return an array of one value that has to be copied."""
    if how == "read-only":
        array = np.full((1, 4096), value, np.float32)
        array.setflags(write=False)
        return array
    return np.full((4096, 1), value, np.float32)[::-1].T


@pytest.mark.parametrize("how", ["read-only", "reversed"])
@pytest.mark.parametrize("taps", [(), ("t",)])
def test_copies_of_inputs_live_until_they_are_read(how: str, taps: tuple[str, ...]) -> None:
    graph = parse_graph(GRAPH)
    executable = load_on(backend("openvino"), graph, find_target("openvino:CPU"), CompileOptions(threads=1))
    for factor in (1.0, 2.0):
        feeds = {name: _copied(factor * value, how) for name, value in (("x", 100.0), ("y", 20.0), ("z", 3.0))}
        found = executable.run(feeds, taps)
        np.testing.assert_array_equal(found["u"], np.full((1, 4096), factor * 77, np.float32))
        for tap in taps:
            np.testing.assert_array_equal(found[tap], np.full((1, 4096), factor * 80, np.float32))
