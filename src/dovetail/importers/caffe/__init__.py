"""Read Caffe networks: a .prototxt text, and the .caffemodel of the same name beside it."""

from __future__ import annotations

from pathlib import Path

from dovetail.importers.caffe.network import build_network
from dovetail.importers.caffe.text import read_text
from dovetail.importers.caffe.wire import read_blobs
from dovetail.importers.options import LoadOptions
from dovetail.importers.paired import read_pair
from dovetail.ir import Graph

__all__ = ["load_caffe"]


def load_caffe(path: Path, options: LoadOptions | None = None) -> Graph:
    """Return the Graph of a Caffe network in its test phase.

    Raises LoadError when a file is missing, damaged or not understood.
    """
    chosen = options or LoadOptions()
    text, weights = read_pair(path, ".prototxt", ".caffemodel", chosen)
    return build_network(read_text(text, str(path)), read_blobs(weights, str(path)), str(path), chosen)
