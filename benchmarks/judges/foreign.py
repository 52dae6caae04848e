"""Run a model in a framework of another interpreter: `INTERPRETER foreign.py FOLDER`, without Dovetail.

FOLDER holds `request.json` (framework, model, inputs, outputs, submodule, feeds) and `0.npz`, ... with arrays in the
model's order; `out0.npz`, ... are written beside them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[list[Any]], list[Any]]


def _tensorflow(request: dict[str, Any]) -> Run:
    import tensorflow as tf  # type: ignore[import-not-found,unused-ignore]

    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString(Path(request["model"]).read_bytes())
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(definition, name="")
    session = tf.compat.v1.Session(graph=graph)
    names = request["inputs"]
    return lambda feed: session.run(request["outputs"], dict(zip(names, feed, strict=True)))


def _torch(request: dict[str, Any]) -> Run:
    import torch  # type: ignore[import-not-found,unused-ignore]

    torch.set_num_threads(1)
    module = torch.jit.load(request["model"], map_location="cpu").eval()
    for name in filter(None, request["submodule"].split(".")):
        module = getattr(module, name)

    def run(feed: list[Any]) -> list[Any]:
        with torch.no_grad():
            found = module(*(torch.from_numpy(value) for value in feed))
        return [item.numpy() for item in (found if isinstance(found, tuple | list) else (found,))]

    return run


def _paddle(request: dict[str, Any]) -> Run:
    import paddle.inference as inference  # type: ignore[import-not-found,unused-ignore]

    model = Path(request["model"])
    config = inference.Config(str(model), str(model.with_suffix(".pdiparams")))
    config.disable_gpu()
    config.switch_ir_optim(False)
    predictor = inference.create_predictor(config)

    def run(feed: list[Any]) -> list[Any]:
        for name, value in zip(predictor.get_input_names(), feed, strict=True):
            predictor.get_input_handle(name).copy_from_cpu(value)
        predictor.run()
        return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]

    return run


_FRAMEWORKS = {"TensorFlow": _tensorflow, "PyTorch": _torch, "Paddle": _paddle}


def main() -> None:
    """Run all feeds of a request."""
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text())
    run = _FRAMEWORKS[request["framework"]](request)
    for index in range(request["feeds"]):
        with np.load(folder / f"{index}.npz", allow_pickle=False) as held:
            feed = [held[name] for name in held.files]
        np.savez(folder / f"out{index}.npz", *(np.asarray(item) for item in run(feed)))


if __name__ == "__main__":
    main()
