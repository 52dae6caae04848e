"""The greedy convex merge, on the shapes where joining everything connected would close a cycle."""

from __future__ import annotations

import random

import pytest

from dovetail.formats.paddle import LoggedOperation, estimate_subgraphs


def _graph(text: str) -> tuple[LoggedOperation, ...]:
    """Read `a=x+y b=a` as operators."""
    found = []
    for item in text.split():
        out, _, ins = item.partition("=")
        found.append(LoggedOperation("op", tuple(ins.split("+")) if ins else (), (out,)))
    return tuple(found)


@pytest.mark.parametrize(
    ("text", "npu", "subgraphs", "crossing"),
    [
        ("a=x b=a c=b", "111", 1, 0),
        ("a=x b=a c=b", "101", 2, 2),
        ("a=x b=a c=b", "000", 0, 0),
        ("a=x b=a c=b", "010", 1, 2),
        # A diamond with a skip: a and d are connected, but c between them is on the CPU.
        ("a=x b=a c=b d=a+c", "1101", 2, 3),
        # Two operators that share only an input from the CPU are not joined.
        ("k=x a=k b=k", "011", 2, 1),
        ("a=x b=y", "11", 2, 0),
    ],
)
def test_known_shapes(text: str, npu: str, subgraphs: int, crossing: int) -> None:
    found = estimate_subgraphs(_graph(text), [sign == "1" for sign in npu])
    assert (found.subgraphs, found.boundary_tensors) == (subgraphs, crossing)


def _acyclic(operations: tuple[LoggedOperation, ...], cluster_of: tuple[int, ...]) -> bool:
    group = [f"n{c}" if c >= 0 else f"c{i}" for i, c in enumerate(cluster_of)]
    maker = {op.outs[0]: index for index, op in enumerate(operations)}
    links = {
        (group[maker[name]], group[index])
        for index, op in enumerate(operations)
        for name in op.ins
        if name in maker and group[maker[name]] != group[index]
    }
    left = set(group)
    while True:
        free = {name for name in left if not any(b == name and a in left for a, b in links)}
        if not free:
            return not left
        left -= free


def test_clusters_never_wait_for_each_other() -> None:
    """The quotient graph has an order in which it can run, on 200 random graphs."""
    rng = random.Random(0)
    for _ in range(200):
        count = rng.randint(2, 25)
        operations = tuple(
            LoggedOperation(
                "op", tuple(f"t{j}" for j in sorted(rng.sample(range(i), min(i, rng.randint(0, 3))))), (f"t{i}",)
            )
            for i in range(count)
        )
        npu = [rng.random() < 0.7 for _ in range(count)]
        found = estimate_subgraphs(operations, npu)
        assert _acyclic(operations, found.cluster_of)
        assert all((c >= 0) == ok for c, ok in zip(found.cluster_of, npu, strict=True))
        assert len({c for c in found.cluster_of if c >= 0}) == found.subgraphs
