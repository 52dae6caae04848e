"""Finding backends and targets by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from dovetail.backend import registry
from dovetail.backend.registry import (
    available_backends,
    backend,
    backend_statuses,
    backends_for,
    find_device,
    find_target,
    known_targets,
)
from dovetail.errors import DeviceNotFound


def test_the_backends_of_this_package_are_there() -> None:
    statuses = {item.name: item for item in backend_statuses()}
    assert {"cpu", "npusim", "null", "reference"} <= statuses.keys()
    assert all(statuses[name].available for name in ("cpu", "npusim", "null", "reference"))
    # A backend whose package is not installed says so.
    assert all(item.available != bool(item.reason) for item in statuses.values())
    for one in available_backends():
        assert backend(one.name) is one


def test_every_target_is_found_by_its_name_and_compiled_by_someone() -> None:
    names = [target.name for target in known_targets()]
    assert names == sorted(set(names))
    for name in names:
        assert find_target(name).name == name
        for one in backends_for(name):
            assert find_device(one.name, name).accepts(name)


@pytest.mark.parametrize(("name", "near"), [("vsi:v835", "vsi:v853"), ("cpuu", "cpu"), ("referense", "reference")])
def test_an_unknown_target_suggests_the_nearest(name: str, near: str) -> None:
    with pytest.raises(DeviceNotFound, match=f"target '{name}' is unknown") as caught:
        find_target(name)
    assert f"Did you mean '{near}'?" in str(caught.value)


def test_an_unknown_target_that_is_like_nothing_lists_what_is_known() -> None:
    with pytest.raises(DeviceNotFound) as caught:
        find_target("toaster")
    assert "Did you mean" not in str(caught.value)
    assert "vsi:a311d" in str(caught.value)
    assert backends_for("toaster") == ()


def test_a_device_that_is_known_and_not_here_says_why() -> None:
    found = 0
    for one in available_backends():
        absent_devices = one.abilities().absent_devices
        for gone in () if absent_devices is None else absent_devices():
            for name in (gone.name, f"{gone.name}.1"):
                with pytest.raises(DeviceNotFound, match=f"target '{name}' cannot be used here: ") as caught:
                    find_target(name)
                assert gone.reason.rstrip(".") in str(caught.value)
                assert "\n" not in str(caught.value)
            with pytest.raises(DeviceNotFound, match=f"no device for target '{gone.name}': "):
                find_device(one.name, gone.name)
            found += 1
    for status in backend_statuses():
        if not status.available:
            with pytest.raises(DeviceNotFound, match=f"'{status.name}:x' cannot be used here: backend"):
                find_target(f"{status.name}:x")
            found += 1
    if not found:
        pytest.skip("every device that is known is here")


def test_a_backend_that_does_not_run_a_target() -> None:
    with pytest.raises(DeviceNotFound, match="backend 'cpu' has no device for target 'vsi:v853'"):
        find_device("cpu", "vsi:v853")


@pytest.mark.parametrize(
    "error",
    [ImportError("No module named 'openvino'"), OSError("libovx.so: no such file"), AttributeError("old numpy")],
)
def test_a_backend_that_cannot_be_loaded_is_reported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Broken:
        def load(self) -> object:
            raise error

    points = {**registry._points(), "broken": Broken()}
    monkeypatch.setattr(registry, "_points", lambda: points)
    registry.backend.cache_clear()
    registry.find_target.cache_clear()
    try:
        with pytest.raises(DeviceNotFound, match="backend 'broken' cannot be used") as caught:
            backend("broken")
        status = {item.name: item for item in backend_statuses()}["broken"]
        assert not status.available
        assert str(error) in status.reason
        assert "Install the package" in str(caught.value)
        error = ImportError("there is no SDK: run 'dovetail sdk install verisilicon'")
        with pytest.raises(DeviceNotFound, match=r"cannot be used: there is no SDK: run '[a-z ]+'\.$"):
            backend("broken")
        # The others are not disturbed.
        assert find_target("cpu").name == "cpu"
    finally:
        registry.backend.cache_clear()
        registry.find_target.cache_clear()


def test_only_entry_points_are_looked_at() -> None:
    for name in ("dovetail.backends.cpu", "", "../cpu", "os"):
        with pytest.raises(DeviceNotFound, match="is not installed"):
            backend(name)
    assert all(isinstance(point, EntryPoint) for point in registry._points().values())
