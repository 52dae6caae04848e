"""PyTorch's files, converted for real; the judge is PyTorch."""

from __future__ import annotations

import contextlib
import importlib.util
import pickle
import sys
import zipfile
from pathlib import Path

import needs
import numpy as np
import pytest

from dovetail.errors import LoadError
from dovetail.importers import Conversion, LoadOptions, load_model
from dovetail.ir import Graph
from dovetail.passes import normalize
from dovetail.quantize import load_float

from .conftest import Ready, run_there

pytestmark = [pytest.mark.env, pytest.mark.slow]

_MAKE = """
import numpy, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU()
        self.features = torch.nn.Sequential(*layers)
        self.head = torch.nn.Linear(4, 5)
    def forward(self, image):
        return self.head(self.features(image).mean((2, 3))).softmax(1)
torch.manual_seed(0)
net = Net()
net(torch.randn(8, 3, 16, 16))
net.eval()
value = torch.randn(1, 3, 16, 16)
torch.export.save(torch.export.export(net, (value,)), "net.pt2")
torch.jit.script(net).save("net.pt")
torch.save(net.state_dict(), "weights.pth")
numpy.savez("judge.npz", value=value.numpy(), wanted=net(value).detach().numpy())
"""


@pytest.fixture(scope="module")
def made(ready: Ready, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch")
    run_there(ready("torch"), _MAKE, folder)
    return folder


def _worst(graph: Graph, folder: Path) -> float:
    graph = normalize(graph)
    with np.load(folder / "judge.npz") as judge:
        found = load_float(graph, 1).run({graph.inputs[0]: judge["value"]})[graph.outputs[0]]
        return float(np.abs(found - judge["wanted"]).max())


def test_programs_compute_the_same_and_keep_the_names_of_modules(made: Path) -> None:
    graph = load_model(made / "net.pt2")
    assert _worst(graph, made) < 1e-6
    assert {"features.0/conv2d", "features.2/relu", "head/linear", "softmax"} <= {node.name for node in graph.nodes}
    assert graph.inputs == ("image",)


def test_torchscript_needs_shapes_and_says_of_what(made: Path) -> None:
    with pytest.raises(LoadError, match=r"image: Tensor.*give each a shape"):
        load_model(made / "net.pt")
    graph = load_model(made / "net.pt", LoadOptions(shapes={"image": (1, 3, 16, 16)}))
    assert _worst(graph, made) < 1e-6
    assert "/features/0/Conv" in {node.name for node in graph.nodes}


def test_state_dicts_are_refused_with_what_to_do(made: Path) -> None:
    with pytest.raises(LoadError, match=r"without a network.*load_module"):
        load_model(made / "weights.pth")


class _Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("member", ["data/sample_inputs/model.pt", "data/weights/weight_0"])
def test_a_pickle_inside_a_program_does_not_run(made: Path, tmp_path: Path, member: str) -> None:
    sign, path = tmp_path / "opened", tmp_path / "trap.pt2"
    with zipfile.ZipFile(made / "net.pt2") as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            trapped = name.endswith(member)
            target.writestr(name, pickle.dumps(_Trap(sign)) if trapped else source.read(name))
    with contextlib.suppress(LoadError):
        load_model(path)
    assert not sign.exists()


def test_the_time_limit_ends_a_conversion(made: Path) -> None:
    options = LoadOptions(shapes={"image": (1, 3, 24, 24)}, conversion=Conversion(limit_s=0.2))
    with pytest.raises(LoadError, match=r"did not end within 0\.2 s"):
        load_model(made / "net.pt", options)


@pytest.mark.models
def test_a_part_of_silero_is_its_own_onnx_file(models: Path, ready: Ready) -> None:
    ready("torch")
    shapes = {"x": (1, 576), "state": (2, 1, 128)}
    options = LoadOptions(shapes=shapes, conversion=Conversion(submodule="_model"))
    ours = normalize(load_model(models / "silero_vad/silero_vad.jit", options))
    theirs = normalize(
        load_model(
            models / "silero_vad/silero_vad_16k_op15.onnx",
            LoadOptions(shapes={"input": (1, 576), "state": (2, 1, 128)}),
        )
    )
    rng = np.random.default_rng(0)
    sound = (rng.normal(size=(1, 576)) * 0.1).astype(np.float32)
    state = rng.normal(size=(2, 1, 128)).astype(np.float32)
    found = load_float(ours, 1).run({"x": sound, "state": state})
    wanted = load_float(theirs, 1).run({"input": sound, "state": state, "sr": np.array(16000, np.int64)})
    for mine, other in zip(ours.outputs, theirs.outputs, strict=True):
        assert np.abs(found[mine] - wanted[other]).max() < 1e-4


def test_a_live_module(made: Path, ready: Ready, tmp_path: Path) -> None:
    version = run_there(ready("torch"), "import sys; print(*sys.version_info[:2])", tmp_path).split()
    if version != [str(part) for part in sys.version_info[:2]]:
        needs.without(
            "python", f"the environment has Python {'.'.join(version)}, which cannot read the packages of this one"
        )
    source = Path(__file__).parents[3] / "src"
    spec = importlib.util.find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    program = _MAKE + (
        # What Dovetail needs and this environment lacks comes last.
        f"import sys; sys.path[:] = [{str(source)!r}, *sys.path, {str(Path(spec.origin).parents[1])!r}]\n"
        "import dovetail\n"
        "from dovetail.importers import load_module\n"
        "net.train()\n"
        "graph = load_module(net, (value,))\n"
        "assert net.training\n"
        "print(*(node.name for node in graph.nodes))\n"
        "try:\n"
        "    load_module(net.state_dict(), (value,))\n"
        "except dovetail.DovetailError as error:\n"
        "    print(error)\n"
    )
    said = run_there(ready("torch"), program, tmp_path)
    assert "features.0/conv2d" in said
    assert "load_state_dict" in said
