"""What a file of another framework is, before any converter is started."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest

from dovetail.errors import LoadError
from dovetail.importers import Conversion, LoadOptions, load_model, survey_model


class _Trap:
    """Write a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.fixture(autouse=True)
def _no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every attempt to make an environment be an error."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("DOVETAIL_ENV_INSTALL", "0")


def _archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"m/{name}", content)
    return path


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".jit", ".pt2"])
@pytest.mark.parametrize("zipped", [True, False])
def test_pickles_are_refused_and_never_opened(tmp_path: Path, suffix: str, zipped: bool) -> None:
    sign, path = tmp_path / "opened", tmp_path / f"model{suffix}"
    trap = pickle.dumps(_Trap(sign))
    if zipped:
        _archive(path, **{"data.pkl": trap, "version": b"3\n"})
    else:
        path.write_bytes(trap)
    with pytest.raises(LoadError, match="pickled Python") as caught:
        load_model(path)
    assert "torch.export.save" in str(caught.value.hint)
    assert not sign.exists()


@pytest.mark.parametrize("suffix", [".pb", ".pdmodel", ".keras", ".h5"])
def test_garbage_is_refused_before_an_environment_is_made(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"GIF89a anything")
    (tmp_path / "model.pdiparams").write_bytes(b"x")
    with pytest.raises(LoadError, match="damaged"):
        load_model(path)


def test_compiled_packages_are_refused(tmp_path: Path) -> None:
    path = _archive(tmp_path / "model.pt2", **{"data/aotinductor/model/m.so": b"\x7fELF"})
    with pytest.raises(LoadError, match="machine code"):
        load_model(path)


def test_half_a_paddle_model_names_the_other_half(tmp_path: Path) -> None:
    (tmp_path / "model.pdmodel").write_bytes(b"\n\x00")
    with pytest.raises(LoadError, match=r"model\.pdiparams: is missing"):
        load_model(tmp_path / "model.pdmodel")


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"saved_model\.pb"):
        load_model(tmp_path)


def test_cuts_are_for_tensorflow_and_parts_for_torchscript(tmp_path: Path) -> None:
    path = _archive(tmp_path / "model.pt", **{"constants.pkl": b"", "code/__torch__.py": b""})
    with pytest.raises(LoadError, match="only TensorFlow models"):
        load_model(path, LoadOptions(conversion=Conversion(inputs=("x",))))
    (tmp_path / "model.pb").write_bytes(b"\n\x00")
    with pytest.raises(LoadError, match="only TorchScript"):
        load_model(tmp_path / "model.pb", LoadOptions(conversion=Conversion(submodule="x")))


def test_the_survey_names_the_converter(tmp_path: Path) -> None:
    path = _archive(tmp_path / "model.pt", **{"constants.pkl": b"", "code/__torch__.py": b""})
    found = survey_model(path)
    assert found.format == "torch script"
    assert any("'torch'" in note for note in found.notes)


def test_an_environment_that_must_not_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(b"\n\x00")
    with pytest.raises(LoadError, match="DOVETAIL_ENV_INSTALL=0 forbids") as caught:
        load_model(tmp_path / "model.pb")
    assert "dovetail env install tensorflow" in str(caught.value)
