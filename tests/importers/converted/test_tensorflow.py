"""TensorFlow's files, converted for real; the judge is TensorFlow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail.errors import LoadError
from dovetail.importers import Conversion, LoadOptions, load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.quantize import load_float

from .conftest import Ready, run_there

pytestmark = [pytest.mark.env, pytest.mark.slow]

_CUT = LoadOptions(conversion=Conversion(inputs=("Reshape:0",), outputs=("labels_softmax:0",)))

_MAKE = """
import keras, numpy
keras.utils.set_random_seed(0)
net = keras.Sequential([
    keras.layers.Input((8, 8, 3), name="img"),
    keras.layers.Conv2D(4, 3, activation="relu", name="first"),
    keras.layers.BatchNormalization(name="norm"),
    keras.layers.GlobalAveragePooling2D(name="pool"),
    keras.layers.Dense(5, activation="softmax", name="out"),
], name="net")
value = numpy.random.default_rng(0).normal(size=(1, 8, 8, 3)).astype("float32")
net.save("net.keras")
net.save("net.h5")
net.export("saved", verbose=False)
numpy.savez("judge.npz", value=value, wanted=net(value).numpy())
trap = keras.Sequential([keras.layers.Input((4,)), keras.layers.Lambda(lambda x: x + 1)])
trap.save("code.keras")
trap.save("code.h5")
"""

_JUDGE = """
import numpy, tensorflow as tf
graph = tf.compat.v1.GraphDef()
graph.ParseFromString(open({path!r}, "rb").read())
with tf.Graph().as_default() as g:
    tf.import_graph_def(graph, name="")
    with tf.compat.v1.Session(graph=g) as session:
        rows = numpy.load("values.npy")
        made = [session.run("labels_softmax:0", {{"Reshape:0": row[None]}})[0] for row in rows]
numpy.save("wanted.npy", numpy.stack(made))
"""


@pytest.fixture(scope="module")
def made(ready: Ready, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorflow")
    run_there(ready("tensorflow"), _MAKE, folder)
    return folder


@pytest.mark.parametrize("name", ["net.keras", "net.h5", "saved", "saved/saved_model.pb"])
def test_keras_and_saved_models_compute_the_same(made: Path, name: str) -> None:
    graph = normalize(load_model(made / name, LoadOptions(shapes={"img": (1, 8, 8, 3)})))
    with np.load(made / "judge.npz") as judge:
        found = load_float(graph, 1).run({"img": judge["value"]})[graph.outputs[0]]
        assert np.abs(found - judge["wanted"]).max() < 1e-6


@pytest.mark.parametrize("name", ["net.keras", "net.h5"])
def test_layers_keep_their_names(made: Path, name: str) -> None:
    names = {node.name for node in load_model(made / name).nodes}
    assert {"net/first/convolution", "net/first/Relu", "net/out/MatMul"} <= names


@pytest.mark.parametrize("name", ["code.keras", "code.h5"])
def test_python_inside_keras_files_is_refused(made: Path, name: str) -> None:
    with pytest.raises(LoadError, match=r"(?i)lambda"):
        load_model(made / name)


@pytest.mark.models
def test_a_front_end_is_refused_with_the_place_to_cut(models: Path, ready: Ready) -> None:
    ready("tensorflow")
    with pytest.raises(LoadError, match=r"DecodeWav, Mfcc.*inputs Reshape:0, outputs labels_softmax:0"):
        load_model(models / "kws_tf_pb/DS_CNN_S.pb")


def test_a_tensor_that_is_not_there(models: Path, ready: Ready) -> None:
    ready("tensorflow")
    cut = LoadOptions(conversion=Conversion(inputs=("Reshap:0",), outputs=("labels_softmax:0",)))
    with pytest.raises(LoadError, match="Did you mean 'Reshape:0'"):
        load_model(models / "kws_tf_pb/DS_CNN_S.pb", cut)


@pytest.mark.models
@pytest.mark.parametrize("name", ["DS_CNN_S", "GRU_S", "Basic_LSTM_S"])
def test_frozen_graphs_with_loops_compute_the_same(models: Path, ready: Ready, tmp_path: Path, name: str) -> None:
    path = models / f"kws_tf_pb/{name}.pb"
    graph: Graph = normalize(load_model(path, _CUT))
    width = (graph.types["Reshape:0"].static_shape or ())[1]
    rows = np.random.default_rng(0).normal(size=(4, width)).astype(np.float32) * 10
    np.save(tmp_path / "values.npy", rows)
    run_there(ready("tensorflow"), _JUDGE.format(path=str(path.absolute())), tmp_path)
    wanted = np.load(tmp_path / "wanted.npy", allow_pickle=False)
    runner = load_float(graph, 1)
    for row, want in zip(rows, wanted, strict=True):
        assert np.abs(runner.run({"Reshape:0": row[None]})[graph.outputs[0]][0] - want).max() < 1e-5
