"""Boards through the commands: a server in one process, `--on` in this one."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import needs
import numpy as np
import pytest
import work
from served import TOKEN, Served, served

import dovetail
from dovetail.cli.main import main
from dovetail.ir import AnyArray

from .conftest import Said, Tiny

Run = Callable[..., Said]
DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("DOVETAIL_BOARD_TOKEN", raising=False)
    return tmp_path / "config" / "dovetail" / "boards.json"


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "token"
    path.touch(mode=0o600)
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, token: Path) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("board"), ["--token-file", token]) as found:
        yield found


@pytest.fixture
def board(server: Served, token: Path, run: Run) -> str:
    """The name of a board that answers."""
    assert run("board", "add", "bench", server.url, "--token-file", token).code == 0
    return "bench"


def arrays_in(folder: Path) -> Mapping[str, AnyArray]:
    return {str(path.relative_to(folder)): np.load(path) for path in sorted(folder.rglob("*.npy"))}


def test_run_on_a_board_saves_the_bytes_of_a_run_here(tiny: Tiny, board: str, run: Run, tmp_path: Path) -> None:
    saved: list[Mapping[str, AnyArray]] = []
    for name, where in (("here", []), ("there", ["--on", board])):
        call = ("run", tiny.bundle, "--data", tiny.data, "--samples", 5, "--tap", "h", "--save", tmp_path / name)
        said = run(*call, *where, "--json")
        assert said.code == 0, said.err
        assert json.loads(said.out)["samples"] == 5
        saved.append(arrays_in(tmp_path / name))
    assert saved[0].keys() == saved[1].keys() != set()
    assert all(saved[0][name].tobytes() == saved[1][name].tobytes() for name in saved[0])


def test_compare_on_a_board_says_what_it_says_here(tiny: Tiny, board: str, run: Run) -> None:
    call = ("compare", tiny.model, tiny.bundle, "--data", tiny.data, "--metric", tiny.metric, "--layers", "--json")
    here, there = run(*call), run(*call, "--on", board)
    assert (here.code, here.err) == (there.code, there.err) == (1, "")
    assert json.loads(here.out) == json.loads(there.out)


def test_profile_on_a_board(tiny: Tiny, board: str, run: Run, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    said = run("profile", tiny.bundle, "--data", tiny.data, "--runs", 4, "--trace", trace, "--on", board, "--json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert (document["on"], document["runs"]) == (board, 4)
    parts = dovetail.load_bundle(tiny.bundle).partitions
    assert [row["target"] for row in document["partitions"]] == [part.target for part in parts]
    assert all(0 < row["min_ns"] <= row["median_ns"] for row in document["partitions"])
    assert document["median_ns"] <= document["p90_ns"] == document["p99_ns"]
    assert document["median_ns"] >= max(row["min_ns"] for row in document["partitions"])
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event.get("ph") == "X" for event in events) == 4 * (1 + len(parts))


def test_devices_of_a_board(board: str, run: Run) -> None:
    there, here = (json.loads(run("devices", *on, "--json").out) for on in (["--on", board], []))
    for said in (there, here):
        for backend in said["backends"]:
            # Why a device is absent is told by a library, in words of the moment.
            backend["absent"] = [item["name"] for item in backend.get("absent", ())]
    assert there["backends"] == here["backends"]
    assert there["on"] == board


def test_boards_are_kept_where_nobody_else_reads(
    server: Served, token: Path, run: Run, board: str, own_configuration: Path
) -> None:
    assert stat.S_IMODE(own_configuration.stat().st_mode) == 0o600
    assert run("board", "add", "gone", "grpc://127.0.0.1:1").code == 0
    assert stat.S_IMODE(own_configuration.stat().st_mode) == 0o600
    said = run("board", "list", "--json")
    assert TOKEN not in said.out
    first, second = json.loads(said.out)["boards"]
    assert (first["name"], first["token"], second["name"], second["token"]) == (board, True, "gone", False)
    assert "cpu" in first["devices"]
    assert second["devices"] is None
    assert "UNAVAILABLE" in second["reason"]
    assert TOKEN not in run("board", "list").out
    assert run("board", "remove", "gone").code == 0
    assert [one["name"] for one in json.loads(run("board", "list", "--json").out)["boards"]] == [board]
    assert list(own_configuration.parent.iterdir()) == [own_configuration]
    own_configuration.chmod(0o644)
    said = run("board", "list")
    assert (said.code, "chmod 600" in said.err) == (2, True)


def test_without_the_token_a_board_refuses(
    tiny: Tiny, server: Served, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("run", tiny.bundle, "--data", tiny.data, "--samples", 1, "--on", server.url)
    said = run(*call)
    assert (said.code, "token is missing or wrong" in said.err) == (2, True)
    monkeypatch.setenv("DOVETAIL_BOARD_TOKEN", TOKEN)
    assert run(*call).code == 0


BAD = {
    "unknown board": (["devices", "--on", "nobody"], "board 'nobody' is unknown"),
    "address": (["devices", "--on", "http://x"], "is no address"),
    "name": (["board", "add", "../x", "grpc://localhost"], "is no name of a board"),
    "remove": (["board", "remove", "nobody"], "board 'nobody' is unknown"),
    "no folder": (["serve", "/nowhere/at/all"], "no such folder"),
    "exposed": (["serve", ".", "--host", "0.0.0.0"], "--tls-cert"),
    "port": (["serve", ".", "--port", "70000"], "is no port"),
    "key": (["serve", ".", "--tls-cert", "x.pem"], "TLS needs a certificate and its key"),
    "limit": (["serve", ".", "--queue", "0"], "is no limit"),
    "no rows": (["serve", ".", "--batch-rows", "0"], "is no limit"),
    "delay": (["serve", ".", "--batch-rows", "4", "--batch-delay", "-1"], "is no delay"),
    "delay of nothing": (["serve", ".", "--batch-delay", "5"], "wait for no others"),
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_bad_input_is_one_line(what: str, run: Run) -> None:
    command, expected = BAD[what]
    said = run(*command)
    assert said.code == 2
    assert expected in said.err
    assert said.err.count("\n") == 1


def test_tokens_in_files_that_others_read_or_that_are_short_are_refused(run: Run, tmp_path: Path) -> None:
    for text, mode, why in ((TOKEN, 0o644, "others may read"), ("short", 0o600, "16 characters")):
        path = tmp_path / f"token-{mode:o}"
        path.write_text(text)
        path.chmod(mode)
        for command in (("serve", tmp_path, "--token-file", path), ("board", "add", "b", "grpc://localhost")):
            said = run(*command, *(() if "--token-file" in command else ("--token-file", path)))
            assert (said.code, why in said.err) == (2, True)


@pytest.mark.parametrize("json_output", [True, False])
def test_serve_says_at_its_end_what_it_served(json_output: bool, tiny: Tiny, run: Run, tmp_path: Path) -> None:
    dovetail.save_bundle(dovetail.load_bundle(tiny.bundle), tmp_path / "tiny")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{}")
    with served(tmp_path, ["--json"] if json_output else []) as server:
        assert any(line.startswith("not served: broken: ") for line in server.said)
        server.process.terminate()
        assert server.process.wait(work.PATIENCE_S) == 0
        assert server.process.stdout is not None
        said = server.process.stdout.read()
    if json_output:
        assert [one["name"] for one in json.loads(said)["models"]] == ["tiny"]
    else:
        assert max(map(len, said.splitlines())) <= 100
        assert "tiny" in said


def test_a_bundle_is_served_from_the_folder_above_it(tiny: Tiny, run: Run) -> None:
    said = run("serve", tiny.bundle)
    assert (said.code, "Give the folder above it" in said.err) == (2, True)


def test_boards_run_bundles(tiny: Tiny, board: str, run: Run) -> None:
    said = run("run", tiny.model, "--data", tiny.data, "--on", board)
    assert (said.code, "boards run bundles" in said.err) == (2, True)


def digits(folder: Path, place: str, *more: object) -> Path:
    """Compile the embedded digit detector by the commands."""
    ranges, plan, bundle = folder / "ranges.json", folder / "plan.json", folder / "bundle"
    model = DIGITS / "digits.onnx"
    for command in (
        ("calibrate", model, "--data", DIGITS / "calib.npz", "-o", ranges),
        ("plan", model, "--place", place, "-o", plan),
        ("compile", model, "--plan", plan, "--ranges", ranges, *more, "-o", bundle),
    ):
        assert main([str(word) for word in command]) == 0
    return bundle


@pytest.mark.slow
@pytest.mark.parametrize("place", ["cpu@fp32", "vsi:v853@i8pc"])
def test_the_digit_detector_end_to_end(place: str, board: str, run: Run, tmp_path: Path) -> None:
    bundle = digits(tmp_path, place)
    for name, where in (("here", []), ("there", ["--on", board])):
        call = ("run", bundle, "--data", DIGITS / "eval.npz", "--samples", 20, "--save", tmp_path / name)
        assert run(*call, *where).code == 0
    here, there = arrays_in(tmp_path / "here"), arrays_in(tmp_path / "there")
    assert here.keys() == there.keys() != set()
    assert all(here[name].tobytes() == there[name].tobytes() for name in here)
    assert run("profile", bundle, "--data", DIGITS / "eval.npz", "--runs", 3, "--on", board).code == 0


@pytest.mark.slow
@pytest.mark.sdk
def test_the_vendor_s_simulator_as_a_board(board: str, run: Run, tmp_path: Path) -> None:
    """Compiled to the vendor's binary here, run by its simulator there: the bytes of a run here."""
    needs.verisilicon()
    bundle = digits(tmp_path, "vsi:v853@u8", "--backend", "vsi:v853=vsi")
    assert "vsi" in {part.backend for part in dovetail.load_bundle(bundle).partitions}
    for name, where in (("here", []), ("there", ["--on", board])):
        call = ("run", bundle, "--data", DIGITS / "eval.npz", "--samples", 2, "--save", tmp_path / name)
        assert run(*call, *where).code == 0
    here, there = arrays_in(tmp_path / "here"), arrays_in(tmp_path / "there")
    assert here.keys() == there.keys() != set()
    assert all(here[name].tobytes() == there[name].tobytes() for name in here)
