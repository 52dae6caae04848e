"""What boards of a farm offer, how a farm is named, and what its commands refuse: nothing has to run."""

from __future__ import annotations

from pathlib import Path

import pytest
from served import small_bundle

from dovetail.cli.main import main
from dovetail.remote.farm import demands_of, is_farm
from dovetail.remote.farm.offers import lacking, offers_of
from dovetail.runtime import LocalRuntime


def test_boards_offer_what_bundles_demand() -> None:
    bundle = small_bundle()
    backends = LocalRuntime().devices()
    offers, demands = offers_of(backends, ["cpu"]), demands_of(bundle)
    assert lacking(demands, offers) == ()
    assert set(demands.values()) == {1.0}
    assert lacking(demands, offers_of(backends, ["vsi:v853"])) == ("part:cpu",)
    assert set(lacking(demands, offers_of([], ["cpu"]))) == {f"backend:cpu@{bundle.partitions[0].backend_version}"}


def test_schedulers_are_told_from_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "scheduler.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    told = {name: is_farm(name) for name in ("tcp://h:1", "tls://h:1", "grpc://h:1", "scheduler.json", "bench")}
    assert told == {"tcp://h:1": True, "tls://h:1": True, "grpc://h:1": False, "scheduler.json": True, "bench": False}
    assert main(["board", "add", "scheduler.json", "grpc://h:1"]) == 0
    assert not is_farm("scheduler.json")


BAD = {
    "no scheduler": (["farm", "status", "nonsense://nowhere"], "no Dask scheduler answers"),
    "no board": (["farm", "worker", "tcp://127.0.0.1:1", "--on", "grpc://127.0.0.1:1"], "UNAVAILABLE"),
    "unknown board": (["farm", "worker", "tcp://127.0.0.1:1", "--on", "nobody"], "board 'nobody' is unknown"),
    "no time": (["farm", "worker", "s", "--on", "grpc://h:1", "--run-seconds", "0"], "is no time for a run"),
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_bad_input_is_one_line(
    what: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    command, expected = BAD[what]
    code = main(command)
    said = capsys.readouterr().err
    assert (code, said.count("\n"), expected in said) == (2, 1, True)
