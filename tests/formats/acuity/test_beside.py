"""What pegasus wants beside a network: written for the layers of a network, and read by Acuity itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.cli.main import main
from dovetail.errors import FormatError
from dovetail.exporters import to_onnx
from dovetail.formats.acuity import (
    PixelScaling,
    compare_folders,
    golden_files,
    inputmeta_of,
    lint_inputmeta,
    lint_postprocess,
    postprocess_of,
    read_inputmeta,
    read_network,
    read_postprocess,
    write_postprocess,
)
from dovetail.formats.acuity.similarity import Grouping
from dovetail.importers import load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.quantize import load_float
from dovetail.testing.networks import Network
from dovetail.testing.running import random_feeds

from .make_network import make_network
from .network_graph import GOLDEN


def two_sided() -> Graph:
    """Return a network with two inputs and two outputs, one of them in pixels."""
    net = Network(4)
    image, other = net.input("image", 1, 3, 8, 8), net.input("other", 1, 4)
    left = net.op("Sigmoid", net.conv(image, 4))
    return normalize(net.graph(left, net.op("Relu", other)))


def _network(graph: Graph) -> bytes:
    return json.dumps(make_network(graph)).encode()


def test_the_sample_postprocess_file_goes_there_and_back() -> None:
    content = (GOLDEN / "ymini_pp.yml").read_bytes()
    (port,) = read_postprocess(content, "f")
    assert (port.lid, port.perm, port.add_node, port.force_float) == ("attach_output/out0_0", (0, 1, 2), False, True)
    assert write_postprocess([port]) == "".join(content.decode().splitlines(keepends=True)[1:])
    layers = json.loads((GOLDEN / "ymini.json").read_text())["Layers"]
    assert lint_postprocess(content, "f", layers) == ()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("attach_output/out0_0", "attach_output/out0_1", "UNKNOWN_LAYER"),
        ("      - 2\n", "      - 1\n", "NUMBER"),
        ("app_postprocs", "postprocs", "SHAPE"),
    ],
)
def test_mistakes_in_a_postprocess_file_are_named(old: str, new: str, code: str) -> None:
    content = (GOLDEN / "ymini_pp.yml").read_text().replace(old, new, 1).encode()
    layers = json.loads((GOLDEN / "ymini.json").read_text())["Layers"]
    assert [item.code for item in lint_postprocess(content, "f", layers)] == [code]


def test_every_input_and_output_has_its_layer() -> None:
    graph = two_sided()
    network = read_network(_network(graph), "n")
    pixels = PixelScaling((127.5, 127.5, 127.5), (0.0078125,), reverse_channel=True)
    image, other = read_inputmeta(inputmeta_of(network, graph, pixels).encode(), "f")
    assert network.layers[image.lid].name == "image"
    assert (image.category, image.mean, image.scale) == ("image", (127.5,) * 3, (0.0078125,) * 3)
    assert (image.reverse_channel, image.layout, image.path) == (True, "nchw", "dataset0.txt")
    assert (other.category, other.shape, other.path) == ("undefined", (1, 4), "dataset1.txt")
    plain = inputmeta_of(network, graph).encode()
    assert lint_inputmeta(plain, "f") == ()
    ports = read_postprocess(postprocess_of(network, graph).encode(), "f")
    assert [network.layers[port.lid].op for port in ports] == ["output", "output"]
    assert [len(port.perm) for port in ports] == [4, 2]


def test_a_network_of_another_model_is_refused() -> None:
    network = read_network((GOLDEN / "ymini.json").read_bytes(), "n")
    with pytest.raises(FormatError, match="no layer for input 'image'"):
        inputmeta_of(network, two_sided())


def test_golden_files_hold_what_float_gives(tmp_path: Path) -> None:
    graph = two_sided()
    network = read_network(_network(graph), "n")
    feeds = random_feeds(graph, 3)
    model = load_float(graph)
    made = dict(golden_files(network, graph, 2, feeds, model.run(feeds)))
    model.close()
    assert len(made) == 4
    assert all(name.startswith("iter_2_") and name.endswith(".tensor") for name in made)
    (image,) = (content for name, content in made.items() if name.endswith("_out0_1_3_8_8.tensor"))
    values = np.array(image.split(), dtype=np.float32)
    np.testing.assert_array_equal(values, feeds["image"].reshape(-1))


def test_the_commands_write_what_the_commands_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, listing, plan = tmp_path / "m.onnx", tmp_path / "m.json", str(tmp_path / "plan.json")
    model.write_bytes(to_onnx(two_sided()).SerializeToString())
    graph = normalize(load_model(model))
    listing.write_bytes(_network(graph))
    (tmp_path / "steps.toml").write_text('channels = "bgr"\nmean = [1.0, 2.0, 3.0]\nscale = 0.5\n')
    assert main(["plan", str(model), "--place", "vsi:v853@i8pc", "-o", plan]) == 0
    export = ["export", plan, "--model", str(model), "--no-verify", "-o", str(tmp_path / "t.quantize")]
    export += ["--preprocess", str(tmp_path / "steps.toml"), "--with-inputmeta"]
    assert main([*export, "--format", "onnxruntime"]) == 2
    assert "--with-inputmeta" in capsys.readouterr().err
    assert main([*export, "--format", "acuity-quantize", "--listing", str(listing)]) == 0
    image = read_inputmeta((tmp_path / "t.inputmeta.yml").read_bytes(), "f")[0]
    assert (image.reverse_channel, image.mean, image.scale) == (True, (1.0, 2.0, 3.0), (0.5, 0.5, 0.5))
    for name in ("t.inputmeta.yml", "t.postprocess.yml", "t.quantize"):
        assert main(["acuity", "lint", str(tmp_path / name), "--network", str(listing)]) == 0
    feeds = [random_feeds(graph, number) for number in range(2)]
    arrays: dict[str, Any] = {name: np.concatenate([item[name] for item in feeds]) for name in graph.inputs}
    np.savez(tmp_path / "d.npz", **arrays)
    golden = ["acuity", "golden", str(model), "--data", str(tmp_path / "d.npz"), "--network", str(listing)]
    for folder in ("one", "two"):
        assert main([*golden, "--samples", "2", "-o", str(tmp_path / folder)]) == 0
    assert len(list((tmp_path / "one").iterdir())) == 8
    found = compare_folders(tmp_path / "one", tmp_path / "two", Grouping())
    assert len(found) == 8
    assert all(item.max_abs == 0 for item in found.values())
