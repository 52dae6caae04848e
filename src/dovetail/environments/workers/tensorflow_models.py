"""Convert TensorFlow's files to ONNX with tf2onnx: frozen graphs, SavedModel, Keras."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

OPSET = 17
_FRONT_ENDS = frozenset(
    {
        *("AudioSpectrogram", "DecodeAndCropJpeg", "DecodeBmp", "DecodeGif", "DecodeImage", "DecodeJpeg", "DecodePng"),
        *("DecodeRaw", "DecodeWav", "Mfcc", "ParseExample", "ParseExampleV2", "ParseSingleExample", "ReadFile"),
        "StringToNumber",
    }
)
"""Operators that read files or strings, or make features of sound: ONNX has none of them."""
_PASSED = frozenset({"Cast", "ExpandDims", "Identity", "Squeeze"})


def convert(request: dict[str, Any], progress: Callable[[str, float], None]) -> dict[str, Any]:
    """Write model.onnx into the request's folder."""
    folder = Path(request["folder"])
    progress("starting TensorFlow", 0.1)
    kind = request["kind"]
    source: str = request["path"]
    layers: list[str] = []
    if kind == "keras":
        progress("reading the Keras model", 0.3)
        source, layers = _keras_to_saved(request, folder / "saved")
    progress("converting TensorFlow to ONNX", 0.5)
    loaded = _frozen(request) if kind == "frozen" else _saved(request, source)
    _write(loaded, folder / "model.onnx", request)
    return {"file": "model.onnx", "layers": layers}


def _frozen(request: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf
    from tf2onnx import tf_loader
    from wording import Refusal

    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(Path(request["path"]).read_bytes())
    except Exception as error:
        raise Refusal(f"{request['label']}: damaged, or not a frozen TensorFlow graph.") from error
    nodes = {node.name: node for node in graph.node}
    if not nodes:
        raise Refusal(f"{request['label']}: the graph has no nodes.")
    inputs = request["inputs"] or _placeholders(nodes)
    outputs = request["outputs"] or _sinks(nodes)
    inputs, outputs = ([name if ":" in name else f"{name}:0" for name in names] for names in (inputs, outputs))
    for name in (*inputs, *outputs):
        if name.split(":")[0] not in nodes:
            raise Refusal(f"{request['label']}: there is no tensor '{name}'.{_near(name, nodes)}")
    _check_front_end(request, nodes, inputs, outputs)
    frozen, inputs, outputs = tf_loader.from_graphdef(request["path"], inputs, outputs)
    return {"graph": frozen, "inputs": inputs, "outputs": outputs, "rename": {}, "tables": None}


def _saved(request: dict[str, Any], source: str) -> dict[str, Any]:
    from tf2onnx import tf_loader

    frozen, inputs, outputs, tables, rename = tf_loader.from_saved_model(
        source,
        request["inputs"] or None,
        request["outputs"] or None,
        return_initialized_tables=True,
        return_tensors_to_rename=True,
    )
    return {"graph": frozen, "inputs": inputs, "outputs": outputs, "rename": rename, "tables": tables}


def _write(loaded: dict[str, Any], target: Path, request: dict[str, Any]) -> None:
    import tensorflow as tf
    from tf2onnx.convert import _convert_common

    with tf.device("/cpu:0"):
        _convert_common(
            loaded["graph"],
            name=Path(request["label"]).name,
            opset=OPSET,
            input_names=loaded["inputs"],
            output_names=loaded["outputs"],
            tensors_to_rename=loaded["rename"],
            initialized_tables=loaded["tables"],
            output_path=str(target),
        )


def _keras_to_saved(request: dict[str, Any], target: Path) -> tuple[str, list[str]]:
    """Return a SavedModel of a Keras file, where inputs keep their names, and the names of its layers."""
    from wording import Refusal

    old = _keras_version(request["path"]) < 3
    if old and _holds_code(request["path"]):
        raise Refusal(
            f"{request['label']}: a Lambda layer holds Python code, which Dovetail never runs: replace the layer, "
            "or export the model from Python with model.export(folder)."
        )
    if old:
        import tensorflow as tf
        import tf_keras

        model = tf_keras.models.load_model(request["path"], compile=False)
        tf.saved_model.save(model, str(target))
    else:
        import keras

        model = keras.models.load_model(request["path"], compile=False, safe_mode=True)
        model.export(str(target), verbose=False)
    return str(target), [model.name, *_layer_names(model)]


def _layer_names(model: Any) -> list[str]:
    names = []
    for layer in model.layers:
        names.append(layer.name)
        if hasattr(layer, "layers"):
            names.extend(_layer_names(layer))
    return names


def _keras_version(path: str) -> int:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            text = json.loads(archive.read("metadata.json")).get("keras_version", "2")
    else:
        import h5py

        with h5py.File(path, "r") as file:
            text = str(file.attrs.get("keras_version", "2"))
    return int(str(text).split(".")[0])


def _holds_code(path: str) -> bool:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return b'"Lambda"' in archive.read("config.json")
    import h5py

    with h5py.File(path, "r") as file:
        return '"Lambda"' in str(file.attrs.get("model_config", ""))


def _placeholders(nodes: dict[str, Any]) -> list[str]:
    return [name for name, node in nodes.items() if node.op == "Placeholder"]


def _sinks(nodes: dict[str, Any]) -> list[str]:
    used = {_producer(name) for node in nodes.values() for name in node.input}
    return [name for name, node in nodes.items() if name not in used and node.op not in ("NoOp", "Const", "Assert")]


def _producer(name: str) -> str:
    return name.lstrip("^").split(":")[0]


def _near(name: str, nodes: dict[str, Any]) -> str:
    import difflib

    near = difflib.get_close_matches(name.split(":")[0], nodes, n=1)
    return f" Did you mean '{near[0]}:0'?" if near else ""


def _check_front_end(request: dict[str, Any], nodes: dict[str, Any], inputs: list[str], outputs: list[str]) -> None:
    """Refuse a graph that reads sound or images itself, and say where to cut it."""
    from wording import Refusal

    stops = {_producer(name) for name in inputs} if request["inputs"] else set()
    seen: set[str] = set()
    pending = [_producer(name) for name in outputs]
    while pending:
        name = pending.pop()
        if name in seen or name in stops or name not in nodes:
            continue
        seen.add(name)
        pending.extend(_producer(item) for item in nodes[name].input)
    stages = sorted({nodes[name].op for name in seen} & _FRONT_ENDS)
    if stages:
        cut = ",".join(_behind_front_end(nodes, seen))
        raise Refusal(
            f"{request['label']}: ONNX has no {', '.join(stages)}: cut the front end off and feed what it computes: "
            f"inputs {cut}, outputs {','.join(outputs)}."
        )


def _behind_front_end(nodes: dict[str, Any], seen: set[str]) -> list[str]:
    """Return the tensors where the network begins: behind the last operator of the front end and its reshape."""
    front = {name for name in seen if nodes[name].op in _FRONT_ENDS}
    users: dict[str, list[str]] = {}
    for name in seen:
        for item in nodes[name].input:
            users.setdefault(_producer(item), []).append(name)
    names: list[str] = []
    for name in sorted(front):
        after = users.get(name, [])
        if not after or any(nodes[user].op in _FRONT_ENDS for user in after):
            continue
        while len(after) == 1 and nodes[after[0]].op in _PASSED:
            name = after[0]
            after = users.get(name, [])
        if len(after) == 1 and nodes[after[0]].op == "Reshape":
            # Its result has the shape that the network was trained with; what comes before often has none.
            name = after[0]
        names.append(f"{name}:0")
    return names
