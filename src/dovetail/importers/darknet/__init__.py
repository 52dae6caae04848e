"""Read Darknet networks: a .cfg file, and the .weights file of the same name beside it."""

from __future__ import annotations

from pathlib import Path

from dovetail.importers.darknet.config import read_config
from dovetail.importers.darknet.layers import build_network
from dovetail.importers.darknet.weights import read_weights
from dovetail.importers.options import LoadOptions
from dovetail.importers.paired import read_pair
from dovetail.ir import Graph

__all__ = ["load_darknet"]


def load_darknet(path: Path, options: LoadOptions | None = None) -> Graph:
    """Return the Graph of a Darknet network; raise LoadError when a file is missing, damaged or not understood.

    The outputs are those of the `[yolo]` layers, `[1, anchors * (5 + classes), H, W]` with Darknet's own logistic
    functions applied, else that of the last layer.
    """
    chosen = options or LoadOptions()
    config, weights = read_pair(path, ".cfg", ".weights", chosen)
    sections = read_config(config, str(path))
    return build_network(sections, read_weights(weights, str(path)), str(path), chosen)
