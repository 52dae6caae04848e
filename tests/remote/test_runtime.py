"""A board is the same place as this machine: same answers, same errors; and what is lost is said to be."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import work
from served import Served, inputs_for, served, slow_bundle, small_bundle

import dovetail
from dovetail.errors import BundleError, DeviceError, DeviceLost, DovetailError, RemoteError
from dovetail.ir import AnyArray
from dovetail.remote import BoardAccess, RemoteRuntime
from dovetail.runtime import LocalRuntime, ProfileOptions, Runtime
from dovetail.runtime.place import BackendPresence


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("board")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with served(folder) as found:
        yield found


@pytest.fixture(scope="module")
def bundle() -> dovetail.Bundle:
    return small_bundle()


@pytest.fixture(params=["here", "board"])
def place(request: pytest.FixtureRequest, server: Served) -> Iterator[Runtime]:
    found: Runtime = LocalRuntime() if request.param == "here" else RemoteRuntime(server.url)
    with found:
        yield found


def test_devices(place: Runtime, server: Served) -> None:
    there, here = ([_without_reasons(item) for item in side.devices()] for side in (place, LocalRuntime()))
    assert there == here


def _without_reasons(found: BackendPresence) -> BackendPresence:
    """Return what a backend has; why something is absent is told by its library, in words of the moment."""
    return replace(found, absent=tuple(replace(item, reason="") for item in found.absent))


@pytest.mark.parametrize("rows", [1, 5])
def test_a_run_has_the_same_outputs_taps_and_types(place: Runtime, bundle: dovetail.Bundle, rows: int) -> None:
    arrays = inputs_for(bundle, rows)
    with dovetail.open_session(bundle) as session:
        expected = session.run(arrays, ["h", "x"])
    with place.load(bundle) as model:
        assert model.devices == ("cpu",)
        run = model.run(arrays, ["h", "x"])
    assert run.outputs["y"].tobytes() == expected.outputs["y"].tobytes()
    assert {name: tap.tobytes() for name, tap in run.taps.items()} == {
        name: tap.tobytes() for name, tap in expected.taps.items()
    }
    assert run.types == expected.types
    assert [(item.index, item.target, item.device) for item in run.timings] == [(0, "cpu", "cpu")]
    assert run.timings[0].start_ns >= 0
    assert 0 < run.timings[0].elapsed_ns <= run.elapsed_ns


def test_a_profile_has_the_runs_that_were_asked_for(place: Runtime, bundle: dovetail.Bundle) -> None:
    feeds = [inputs_for(bundle, seed=seed) for seed in range(3)]
    done: list[int] = []
    with place.load(bundle) as model:
        profile = model.profile(feeds, ProfileOptions(warm_ups=1, runs=7), done.append)
    assert len(profile.runs) == len(profile.starts_ns) == 7
    assert done[-1] == 14
    assert list(profile.starts_ns) == sorted(profile.starts_ns)
    assert all(0 < item.elapsed_ns <= run.elapsed_ns for run in profile.runs for item in run.timings)
    assert profile.devices == ("cpu",)
    assert profile.per_second > 0


WRONG: dict[str, dict[str, AnyArray]] = {
    "missing": {},
    "unknown": {"x": np.zeros((1, 8), np.float32), "z": np.zeros(1, np.float32)},
    "type": {"x": np.zeros((1, 8), np.float64)},
    "shape": {"x": np.zeros((1, 7), np.float32)},
}


@pytest.mark.parametrize("how", sorted(WRONG))
def test_wrong_inputs_are_the_same_error(how: str, bundle: dovetail.Bundle, server: Served) -> None:
    said: list[tuple[type, str]] = []
    for place in (LocalRuntime(), RemoteRuntime(server.url)):
        with place, place.load(bundle) as model, pytest.raises(DeviceError) as caught:
            model.run(WRONG[how])
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


def test_a_tap_that_is_unknown_is_the_same_error(place: Runtime, bundle: dovetail.Bundle) -> None:
    with place.load(bundle) as model, pytest.raises(DeviceError, match="tap 'none': the model has no such tensor"):
        model.run(inputs_for(bundle), ["none"])


def test_an_error_of_the_board_is_raised_here_as_its_type(bundle: dovetail.Bundle, server: Served) -> None:
    """A bundle of another version of a backend: here and there the same words."""
    from dataclasses import replace

    other = replace(bundle, partitions=(replace(bundle.partitions[0], backend_version="0.0.0"),))
    said: list[DovetailError] = []
    for place in (LocalRuntime(), RemoteRuntime(server.url)):
        with place, pytest.raises(BundleError) as caught:
            place.load(other)
        said.append(caught.value)
    assert (said[0].message, said[0].hint) == (said[1].message, said[1].hint)


def test_a_bundle_is_sent_once_and_not_written(bundle: dovetail.Bundle, server: Served, folder: Path) -> None:
    def loads() -> int:
        text = urllib.request.urlopen(f"http://{server.rest}/v2/models/stats").read().decode()
        return text.count('"name"')

    with RemoteRuntime(server.url) as board:
        with board.load(bundle) as model:
            model.run(inputs_for(bundle))
        known = loads()
        with board.load(bundle) as model:
            model.run(inputs_for(bundle))
    assert loads() == known
    assert [path.name for path in folder.iterdir() if path.name != "kept"] == []


def test_install_keeps_a_bundle_in_the_folder(bundle: dovetail.Bundle, server: Served, folder: Path) -> None:
    with RemoteRuntime(server.url) as board:
        board.install("kept", bundle)
    assert dovetail.load_bundle(folder / "kept") == bundle


def test_a_board_that_was_started_anew_gets_the_bundle_again(bundle: dovetail.Bundle, tmp_path: Path) -> None:
    with served(tmp_path) as first:
        port = first.grpc.rpartition(":")[2]
        board = RemoteRuntime(first.url)
        model = board.load(bundle)
        expected = model.run(inputs_for(bundle)).outputs["y"]
    with served(tmp_path, ["--grpc-port", port]), board, model:
        assert np.array_equal(model.run(inputs_for(bundle)).outputs["y"], expected)


def test_a_board_that_is_gone_is_lost(bundle: dovetail.Bundle, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        board = RemoteRuntime(server.url)
        model = board.load(bundle)
        server.process.kill()
        server.process.wait()
    with board, pytest.raises(DeviceLost):
        model.run(inputs_for(bundle))
    with pytest.raises(RemoteError), RemoteRuntime(server.url) as other:
        other.devices()


@pytest.mark.slow
def test_a_server_that_is_asked_to_end_answers_what_is_under_way(tmp_path: Path) -> None:
    bundle = slow_bundle()
    arrays = inputs_for(bundle, 64)
    found: list[object] = []

    def ask() -> None:
        try:
            found.append(model.run(arrays).outputs["y"])
        except Exception as error:
            found.append(error)

    with served(tmp_path) as server, RemoteRuntime(server.url) as board, board.load(bundle) as model:
        asking = threading.Thread(target=ask)
        asking.start()
        waiting = ""
        while not re.search(r"dovetail_requests_waiting\{[^}]*\} 1\.0", waiting) and asking.is_alive():
            waiting = urllib.request.urlopen(f"http://{server.rest}/metrics").read().decode()
        server.process.terminate()
        asking.join()
        assert server.process.wait(work.PATIENCE_S) == 0
    # An even number of products with a matrix that turns rows around: the input itself.
    assert np.array_equal(np.asarray(found[0]), arrays["x"])


@pytest.mark.parametrize(
    "url",
    ["", "board", "http://board:1", "grpc://", "grpc://a:b", "grpc://a:99999", "grpc://a/path", "grpc://user@a"],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(RemoteError, match="is no address"):
        BoardAccess(url)


def test_a_token_does_not_cross_a_network_in_plain_text() -> None:
    with pytest.raises(RemoteError, match="for all to read"):
        BoardAccess("grpc://192.168.1.20:8001", "a-token-that-is-long")
    BoardAccess("grpcs://192.168.1.20:8001", "a-token-that-is-long")
    BoardAccess("grpc://127.0.0.1:8001", "a-token-that-is-long")
    BoardAccess("grpc://192.168.1.20:8001", "a-token-that-is-long", insecure=True)
    assert "long" not in repr(BoardAccess("grpc://localhost", "a-token-that-is-long"))
