"""Random graphs, made of the blocks of real networks."""

from __future__ import annotations

from dovetail.testing.wild.blocks import BLOCKS, start
from dovetail.testing.wild.case import WildCase
from dovetail.testing.wild.growth import Growth, UnfitError

_FEWEST_NODES, _MOST_NODES = 4, 30
_LARGEST_BLOCK = 5
_IMAGE = 4


def wild_graph(seed: int) -> WildCase:
    """Return a random graph of 4 to 30 nodes, the same for the same seed."""
    growth = Growth(seed)
    wanted = growth.draw.whole(_FEWEST_NODES, _MOST_NODES - _LARGEST_BLOCK)
    start(growth)
    while len(growth.nodes) < wanted:
        mark = growth.mark()
        try:
            growth.draw.pick(*BLOCKS)(growth, _source(growth))
        except UnfitError:
            growth.undo(mark)
        if len(growth.nodes) > _MOST_NODES:
            growth.undo(mark)
    return growth.case(seed)


def _source(growth: Growth) -> str:
    """Return where to go on: mostly the last image, else the last tensor or any."""
    tensors = list(growth.values)
    images = [name for name in tensors if len(growth.shape(name)) == _IMAGE]
    if images and growth.draw.chance(0.5):
        return images[-1]
    return tensors[-1] if growth.draw.chance(0.7) else growth.draw.pick(*tensors)
