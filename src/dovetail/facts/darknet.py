"""Darknet's own words in a graph: the anchors of its yolo layers."""

from __future__ import annotations

from dovetail.ir.node import Node

ANCHORS = "darknet.anchors"
"""Attribute of what makes a detector's output: width and height in pixels of its anchors, one after another."""


def anchor_facts(node: Node) -> tuple[tuple[float, float], ...]:
    """Return width and height in pixels of a detector's anchors, empty where its file does not list them."""
    values = node.attributes.get(ANCHORS, ())
    if not isinstance(values, tuple) or len(values) % 2:
        return ()
    sizes = [float(item) for item in values]
    return tuple(zip(sizes[::2], sizes[1::2], strict=True))
