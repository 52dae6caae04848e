"""Blobs for VeriSilicon's driver: `dovetail-run` checks all of them before the driver's library is even opened."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from boards import NPU, small_network
from runners import Facts, Runner, blob_of, compiled, reseal

from dovetail._version import __version__
from dovetail.bundle import save_bundle
from dovetail.seal import unsealed

pytestmark = pytest.mark.slow
PASSED = "the driver's shim cannot be loaded"
"""What is said once every check is passed: no library is given."""
OPENING = b"dovetail vsi 2 "


@pytest.fixture
def program(runner: Runner, tmp_path: Path) -> Path:
    """Return a bundle whose middle partition is the graph that the driver would be given; no SDK is needed for that."""
    graph = small_network()
    save_bundle(compiled(graph, {node.name: f"{NPU}@i8pc" for node in graph.nodes}, {NPU: "npusim"}), tmp_path / "b")
    document = unsealed(json.loads((tmp_path / "b/manifest.json").read_text()))
    for index, part in enumerate(document["partitions"]):
        if part["backend"] == "npusim":
            path = tmp_path / "b" / f"partition-{index}.blob"
            path.write_bytes(path.read_bytes().partition(b"\n")[2])
            part.update(backend="vsi", format="vsi-graph", backend_version=f"{__version__}+2.0", needs={})
    assert any(part["backend"] == "vsi" for part in document["partitions"])
    reseal(tmp_path / "b", document)
    return tmp_path / "b"


def opened(data: bytes) -> tuple[bytes, bytes]:
    """Return the text and the constants of a blob."""
    first, _, rest = data.partition(b"\n")
    size = int(first.removeprefix(OPENING))
    return rest[:size], rest[size:]


def closed(text: bytes, raw: bytes) -> bytes:
    """Return a blob."""
    return OPENING + b"%d\n" % len(text) + text + raw


def refused(runner: Runner, bundle: Path) -> str:
    """Return what is said of a bundle."""
    return Runner(runner.program).refusal(bundle, *runner.options, "--vsi", "/nowhere.so")


def edge(facts: Facts) -> Facts:
    """Return the tensor of the first input."""
    found: Facts = facts["tensors"][facts["inputs"][0]]
    return found


def constant(facts: Facts) -> Facts:
    """Return a constant."""
    found: Facts = next(tensor for tensor in facts["tensors"] if "data" in tensor)
    return found


CHANGES: dict[str, tuple[Callable[[Facts], object], str]] = {
    "nothing": (lambda facts: None, PASSED),
    "type": (lambda facts: edge(facts).update(dtype=99), "no known form"),
    "role": (lambda facts: edge(facts).update(role=-1), "no known form"),
    "quantisation": (lambda facts: edge(facts).update(quant=17), "no known form"),
    "channels": (lambda facts: edge(facts).update(quant=3), "no known form"),
    "zero points": (lambda facts: edge(facts).update(zero_points=[1, 2, 3]), "do not fit each other"),
    "scale": (lambda facts: edge(facts).update(scale=0.123), "with another scale"),
    "shape": (lambda facts: edge(facts).update(shape=[16, 17, 3, 1]), "was compiled with shape [1, 3, 17, 16]"),
    "no shape": (lambda facts: edge(facts).update(shape=[]), "no known form"),
    "large": (lambda facts: edge(facts).update(shape=[2**30, 2**30, 2**30, 2**30]), "too large"),
    "negative": (lambda facts: edge(facts).update(shape=[-1, 3]), "too large, or empty"),
    "outside": (lambda facts: constant(facts).update(data=[2**60, 64]), "outside the blob"),
    "before": (lambda facts: constant(facts).update(data=[-64, 64]), "outside the blob"),
    "wraps": (lambda facts: constant(facts).update(data=[64, 2**64 - 32]), "outside the blob"),
    "less": (lambda facts: constant(facts).update(data=[0, 1]), "a constant has the wrong size"),
    "tensor": (lambda facts: facts["operators"][0].update(inputs=[10**6]), "that is not there"),
    "left out": (lambda facts: facts["operators"][0].update(outputs=[-1]), "that is not there"),
    "integer": (lambda facts: facts["operators"][0].update(ints=[2**40]), "too large"),
    "text": (lambda facts: facts["operators"][0].update(floats=["x"]), "damaged"),
    "names": (lambda facts: facts.update(names=[["y"], facts["names"][1]]), "other inputs or outputs"),
    "fewer": (lambda facts: facts.update(outputs=[], names=[facts["names"][0], []]), "other inputs or outputs"),
    "binary": (lambda facts: facts.update(binary={"data": [0, 64]}), "no binary network"),
    "missing": (lambda facts: facts.pop("pid"), "damaged"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_program_that_says_something_else(runner: Runner, program: Path, name: str) -> None:
    change, said = CHANGES[name]
    document, path = blob_of(program)
    text, raw = opened(path.read_bytes())
    facts = json.loads(text)
    change(facts)
    path.write_bytes(closed(json.dumps(facts).encode(), raw))
    reseal(program, document)
    assert said in refused(runner, program)


def test_blobs_that_are_none(runner: Runner, program: Path) -> None:
    document, path = blob_of(program)
    text, raw = opened(path.read_bytes())
    for data in (
        b"",
        b"hello\n",
        OPENING + b"\n",
        OPENING + b"999999999\n",
        OPENING + b"-1\n" + text,
        closed(text, raw[:9]),
    ):
        path.write_bytes(data)
        reseal(program, document)
        assert PASSED not in refused(runner, program)
    # The same bytes as a binary network, which carries a digest of its own.
    path.write_bytes(closed(text, raw))
    for part in document["partitions"]:
        part["format"] = "nbg" if part["backend"] == "vsi" else part["format"]
    reseal(program, document)
    assert "its digest is not that of its bytes" in refused(runner, program)


def test_texts_with_letters_changed(runner: Runner, program: Path) -> None:
    """60 texts drawn from a seed: each is refused for a reason, whatever stands where."""
    rng = random.Random(24)
    document, path = blob_of(program)
    text, raw = opened(path.read_bytes())
    for _ in range(60):
        changed = bytearray(text)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.choice(b'0123456789-[]{}",.e \xff')
        path.write_bytes(closed(bytes(changed), raw))
        reseal(program, document)
        refused(runner, program)
