"""Damaged files of toolchains: read, or refused with one line; a name that the model does not have is refused."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import draws
import pytest

from dovetail.errors import DovetailError, InexpressiblePlan
from dovetail.formats import ReadRequest, WriteRequest, find_format, format_names
from dovetail.ir import Graph
from dovetail.plan import Plan, parse_placement
from dovetail.plan.plan import plan_from_json

from .acuity.make_network import make_network
from .conftest import make_graph, make_plan
from .paddle.make_log import make_log
from .test_bisection import NO_TEXT, RAISED

SEED = draws.seed_of(__name__)
"""Other mutations in every run; a failure prints it."""
COUNT = 1000
NAMES = sorted(set(format_names()) - NO_TEXT)
LISTINGS: dict[str, Callable[[Graph], bytes]] = {
    "acuity-quantize": lambda graph: json.dumps(make_network(graph)).encode(),
    "paddle-mixed": lambda graph: make_log(graph).encode(),
    "paddle-subgraph": lambda graph: make_log(graph).encode(),
}
_TOKEN = re.compile(rb"[\w./]+")
_ODD = (b"", b"\0", b"\xff", b"\r\n", b"-1", b"1e999", b"9" * 400, b"null", b"[]", b"{}", b"\xef\xbb\xbf", b"%s", b"*")


class Subject:
    """A format with a network of ours, a plan with exceptions, and the file that says it."""

    def __init__(self, name: str) -> None:
        self.graph = make_graph().evolve(origins={"head/conv:0": "head_conv"})
        self.graph = self.graph.evolve(name="net")
        self.form = find_format(name)
        self.low, self.high = map(parse_placement, RAISED.get(name, ("vsi:v853@i8pc", "cpu@fp32")))
        self.listing = LISTINGS[name](self.graph) if self.form.needs else None
        plan = make_plan(self.graph, str(self.low), head_conv=str(self.high), join=str(self.high))
        self.content = self._written(plan)

    def _written(self, plan: Plan) -> bytes:
        """Return the file of a plan, or of the nearest that the format can say."""
        try:
            return self.form.write(WriteRequest(plan, self.graph, self.listing)).content
        except InexpressiblePlan as error:
            return self._written(plan_from_json(error.nearest))

    def read(self, content: bytes) -> Plan | None:
        """Return the plan of a file, or None where it is refused; whatever else is raised passes through."""
        request = ReadRequest(self.graph, self.low, self.high, listing=self.listing)
        self.form.lint(content, request)
        with suppress(DovetailError):
            return self.form.read(content, request)
        return None


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return a file with one to five changes."""
    tokens = [match.span() for match in _TOKEN.finditer(content)] or [(0, len(content))]
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(content) + 1)
        start, end = rng.choice(tokens)
        match rng.randrange(7):
            case 0:
                content = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
            case 1:
                content = content[:place] + content[place + rng.choice((1, 3, 40)) :]
            case 2:
                again = content[max(0, place - 30) : place] * rng.choice((1, 2, 50))
                content = content[:place] + again + content[place:]
            case 3:
                content = content[:start] + rng.choice(_ODD) + content[end:]
            case 4:
                other = rng.choice(tokens)
                content = content[:start] + content[other[0] : other[1]] + content[end:]
            case 5:
                content = content[:place]
            case _:
                content = content[:place] + rng.choice(_ODD) + content[place:]
    return content


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_read_or_refused(name: str) -> None:
    subject, rng = Subject(name), random.Random(f"{SEED} {name}")
    for number in range(COUNT):
        content = mutated(subject.content, rng)
        try:
            subject.read(content)
        except Exception as error:
            raise AssertionError(f"seed {SEED}, mutation {number}: {content!r}") from error


def renamed(subject: Subject) -> Iterator[bytes]:
    """Yield the file with one name of the model replaced where it stands, one place after the other."""
    graph = subject.graph
    names = {graph.origin_of(tensor) for tensor in graph.types} | {node.name for node in graph.nodes}
    names |= {origin for node in graph.nodes for origin in node.origin}
    for match in _TOKEN.finditer(subject.content):
        text = match[0].decode()
        # TPU-MLIR joins a name and its operator by '_'.
        if any(text == name or text.startswith(f"{name}_") for name in names):
            yield subject.content[: match.end()] + b"Qx" + subject.content[match.end() :]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_the_model_does_not_have_is_refused(name: str) -> None:
    subject = Subject(name)
    assert subject.read(subject.content) is not None
    found = list(renamed(subject))
    assert found
    assert [content for content in found if subject.read(content) is not None] == []
