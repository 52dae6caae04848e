"""A Caffe network in its test phase: layers in order, blobs that layers may overwrite in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dovetail.errors import LoadError
from dovetail.importers.caffe.layers import LAYERS, CaffeLayer
from dovetail.importers.caffe.text import Message
from dovetail.importers.net import Net
from dovetail.importers.options import LoadOptions
from dovetail.ir import AnyArray, Graph

_TRAINING = ("Accuracy", "Data", "ImageData", "HDF5Data", "SoftmaxWithLoss", "EuclideanLoss", "Silence", "MemoryData")
_MAX_LAYERS = 20_000


def build_network(message: Message, blobs: Mapping[str, Sequence[AnyArray]], where: str, options: LoadOptions) -> Graph:
    """Return the Graph of a network; raise LoadError naming the layer that has no counterpart."""
    net = Net(message.text("name"), where)
    layers = [item for item in message.messages("layer") if _in_test(item)]
    if message.messages("layers"):
        raise LoadError(
            f"{where}: 'layers' is Caffe's form from before 2015.", hint="Upgrade it with upgrade_net_proto_text."
        )
    if not layers or len(layers) > _MAX_LAYERS:
        raise LoadError(f"{where}: is no Caffe network: it has {len(layers)} layers.")
    known = _inputs(message, layers, net, options)
    left = Counter(top for layer in layers for top in layer.texts("top"))
    unread: dict[str, None] = {}
    for layer in layers:
        kind, name = layer.text("type"), layer.text("name") or layer.text("type")
        if kind == "Input" or kind in _TRAINING:
            continue
        convert = LAYERS.get(kind)
        if convert is None:
            raise LoadError(
                f"{layer.place}: layer '{name}' ({kind}) has no counterpart in Dovetail.",
                source_node=name,
                hint=f"Known: {', '.join(sorted(LAYERS))}.",
            )
        bottoms = layer.texts("bottom")
        for bottom in bottoms:
            if bottom not in known:
                raise LoadError(f"{layer.place}: layer '{name}' reads '{bottom}' before any layer makes it.")
            unread.pop(bottom, None)
        tops = layer.texts("top")
        left.subtract(tops)
        # The last layer that writes a blob gives it its name.
        names = [net.fresh(top if not left[top] else f"{top}/{name}") for top in tops]
        site = CaffeLayer(
            net, layer, name, tuple(known[item] for item in bottoms), tuple(names), tuple(blobs.get(name, ()))
        )
        convert(site)
        for top, made in zip(tops, names, strict=True):
            known[top] = made
            unread[top] = None
    return net.graph([known[top] for top in unread], options)


def _in_test(layer: Message) -> bool:
    phases = [rule.text("phase") for rule in layer.messages("include")]
    if any(rule.text("phase") == "TEST" for rule in layer.messages("exclude")):
        return False
    return not phases or any(phase in ("", "TEST") for phase in phases)


def _inputs(message: Message, layers: Sequence[Message], net: Net, options: LoadOptions) -> dict[str, str]:
    """Declare the inputs: Input layers, or the older fields of the network itself."""
    stated: dict[str, tuple[int, ...]] = {}
    for layer in layers:
        if layer.text("type") == "Input":
            shapes = layer.message("input_param").messages("shape")
            for index, top in enumerate(layer.texts("top")):
                shape = shapes[min(index, len(shapes) - 1)] if shapes else Message(layer.place)
                stated[top] = tuple(shape.integers("dim"))
    dims = message.integers("input_dim")
    shapes = message.messages("input_shape")
    for index, name in enumerate(message.texts("input")):
        given = shapes[index].integers("dim") if index < len(shapes) else dims[4 * index : 4 * index + 4]
        stated[name] = tuple(given)
    if not stated:
        raise LoadError(f"{net.where}: has no input of a known shape.", hint="Use the deploy.prototxt.")
    for name, declared in stated.items():
        sizes = tuple(options.shapes.get(name, declared))
        if not sizes or min(sizes) < 1:
            raise LoadError(f"{net.where}: input '{name}' has the shape {list(sizes)}.", source_node=name)
        net.input(name, sizes)
    return {name: name for name in stated}
