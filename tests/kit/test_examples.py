"""Example programs of a bundle: compiled by a real compiler, fed by a real GStreamer, equal to the runtime."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import needs
import numpy as np
import pytest
from runners import expected, onnxruntime_library
from served import bundle_of, inputs_for, small_bundle

import dovetail
from dovetail.bundle import Bundle
from dovetail.cli.main import main
from dovetail.errors import BundleError
from dovetail.kit import example_files, runner_sources

STAND_IN = """
class TensorShape:
    def __init__(self, dims, kind):
        self.dims, self.kind = dims, kind
"""
"""What a filter asks NNStreamer's module for; NNStreamer itself is not needed to run the class."""


def picture_bundle() -> Bundle:
    """Return a bundle of a picture `x [1, 3, 6, 5]` and a vector with an odd name."""
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Relu", ["x"], ["y"], "a"), helper.make_node("Neg", ['odd "?name'], ["z"], "b")]
    graph = helper.make_graph(
        nodes,
        "two",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 5]),
            helper.make_tensor_value_info('odd "?name', TensorProto.INT64, ["N", 2]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 6, 5]),
            helper.make_tensor_value_info("z", TensorProto.INT64, ["N", 2]),
        ],
    )
    return bundle_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


@pytest.mark.slow
def test_the_program_gives_the_bytes_of_the_runtime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compiled as its first line says, and fed with frames by GStreamer where that is there, else from a file."""
    needs.program("cmake", "cmake")
    needs.program("c++", "compiler")
    if not Path("/usr/include/minizip/unzip.h").exists() or not Path("/usr/include/nlohmann/json.hpp").exists():
        needs.without("runner-libraries", "headers of minizip or nlohmann-json are missing")
    bundle = picture_bundle()
    dovetail.save_bundle(bundle, tmp_path / "bundle")
    folder = tmp_path / "example"
    assert main(["bundle", "example", str(tmp_path / "bundle"), "-o", str(folder)]) == 0
    assert "cmake" in capsys.readouterr().out
    configure = ["cmake", "-S", folder, "-B", folder / "build", f"-DDOVETAIL_RUN={runner_sources()}"]
    for step in ([*configure, "-DCMAKE_BUILD_TYPE=Debug"], ["cmake", "--build", folder / "build", "-j2"]):
        ended = subprocess.run([str(word) for word in step], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    feeds = [inputs_for(bundle, seed=seed) for seed in range(3)]
    frames = b"".join(feed[name].tobytes() for feed in feeds for name in bundle.inputs)
    (folder / "frames.raw").write_bytes(frames)
    wanted = expected(bundle, feeds)
    right = b"".join(wanted[name][number].tobytes() for number in range(3) for name in bundle.outputs)
    words = [str(folder / "build" / "infer"), str(tmp_path / "bundle"), str(onnxruntime_library())]
    ended_raw = subprocess.run(words, input=frames, capture_output=True)
    assert ended_raw.returncode == 0, ended_raw.stderr
    assert ended_raw.stdout == right
    refused = subprocess.run([words[0], str(tmp_path / "none")], input="", capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ")
    if shutil.which("gst-launch-1.0"):
        settings = {"BUNDLE": words[1], "LIBRARIES": words[2], "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        piped = subprocess.run(["sh", str(folder / "pipeline.sh"), "plain"], capture_output=True, env=settings)
        assert piped.returncode == 0, piped.stderr
        assert piped.stdout == right


def test_the_filter_gives_the_bytes_of_the_runtime(tmp_path: Path) -> None:
    bundle = picture_bundle()
    dovetail.save_bundle(bundle, tmp_path / "bundle")
    for name, text in example_files(bundle).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "nnstreamer_python.py").write_text(STAND_IN)
    feed = inputs_for(bundle)
    flat = {str(at): feed[name].reshape(-1) for at, name in enumerate(bundle.inputs)}
    np.savez(tmp_path / "in.npz", **flat)  # type: ignore[arg-type]
    script = (
        "import filter, numpy as np\n"
        "one = filter.CustomFilter('bundle')\n"
        "print([item.dims for item in one.getInputDim()], [item.kind.__name__ for item in one.getOutputDim()])\n"
        "with np.load('in.npz') as fed: found = one.invoke([fed['0'], fed['1']])\n"
        "np.savez('out.npz', **{str(at): item for at, item in enumerate(found)})\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "[[5, 6, 3, 1], [2, 1]] ['float32', 'int64']"
    wanted = expected(bundle, [feed])
    with np.load(tmp_path / "out.npz") as found:
        for at, name in enumerate(bundle.outputs):
            assert found[str(at)].tobytes() == wanted[name][0].tobytes()


def test_pipelines_are_of_a_camera_or_of_bytes() -> None:
    camera = example_files(camera_bundle(), "div:255.0")["pipeline.sh"]
    assert "video/x-raw,format=RGB,width=5,height=6 !" in camera
    assert "transpose option=1:2:0:3" in camera
    assert "typecast:float32,div:255.0" in camera
    vector = example_files(small_bundle())["pipeline.sh"]
    assert "tensor_converter input-dim=8:1 input-type=float32" in vector
    assert subprocess.run(["sh", "-n"], input=camera, text=True).returncode == 0


@pytest.mark.parametrize(
    "steps",
    ["x", "div", "div:", "div:x", "div:255,", "div:255 ! fakesink", "sub:1", "typecast:uint8", "per-channel:true@0"],
)
def test_steps_that_no_transform_knows_are_refused(steps: str) -> None:
    with pytest.raises(BundleError, match="no steps of tensor_transform"):
        example_files(camera_bundle(), steps)


@pytest.mark.parametrize("steps", ["", "div:255.0", "add:-127.5,div:127.5", "per-channel:true@0,add:-104@0,mul:1e-2"])
def test_steps_of_tensor_transform_are_taken(steps: str) -> None:
    assert steps in example_files(camera_bundle(), steps)["pipeline.sh"]


def camera_bundle() -> Bundle:
    from onnx import TensorProto, helper

    kind = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 5])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 6, 5])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "a")], "camera", [kind], [made])
    return bundle_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def test_files_are_what_they_claim_to_be(tmp_path: Path) -> None:
    """Thirty lines or so of C++, Python that can be read; a folder of somebody else's stays."""
    files = example_files(picture_bundle())
    assert len([line for line in files["infer.cpp"].splitlines() if line]) <= 32
    ast.parse(files["filter.py"])
    dovetail.save_bundle(small_bundle(), tmp_path / "bundle")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "infer.cpp").write_text("int main() {}")
    for more in (["-o", tmp_path / "mine"], ["-o", tmp_path / "new", "--pixels", "div:255 ! fakesink"]):
        assert main(["bundle", "example", str(tmp_path / "bundle"), *map(str, more)]) == 2
    assert (tmp_path / "mine" / "infer.cpp").read_text() == "int main() {}"


def test_the_unit_for_systemd_is_one(tmp_path: Path) -> None:
    """`systemd-analyze verify` reads it; the program has to be there, so the path is that of another."""
    needs.program("systemd-analyze", "systemd")
    text = (Path(__file__).parents[2] / "examples" / "serve" / "dovetail-serve.service").read_text()
    unit = tmp_path / "dovetail-serve.service"
    unit.write_text(text.replace("/usr/local/bin/dovetail", "/bin/true"))
    ended = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    told = [line for line in (ended.stdout + ended.stderr).splitlines() if "dovetail-serve" in line]
    assert ended.returncode == 0, told
    assert not told
