"""Finding backends and targets by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from dovetail.backend import registry
from dovetail.backend.protocols import AbsentDevice, BackendAbilities, Device
from dovetail.backend.registry import (
    available_backends,
    backend,
    backend_statuses,
    backends_for,
    find_device,
    find_target,
    known_targets,
)
from dovetail.backend.target import Target
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


def test_a_target_with_a_precision_is_told_where_precisions_go() -> None:
    with pytest.raises(DeviceNotFound, match="a target and a precision") as raised:
        find_target("vsi:a733@i8dfp")
    assert "'vsi:a733'" in (raised.value.hint or "")
    assert "'i8dfp' is said apart" in (raised.value.hint or "")


def test_an_unknown_target_that_is_like_nothing_lists_what_is_known() -> None:
    with pytest.raises(DeviceNotFound) as caught:
        find_target("toaster")
    assert "Did you mean" not in str(caught.value)
    assert "vsi:a311d" in str(caught.value)
    assert backends_for("toaster") == ()


class _Deviceless:
    """A backend whose one device is not here."""

    name, version = "deviceless", "1"

    def targets(self) -> tuple[Target, ...]:
        return ()

    def devices(self) -> tuple[Device, ...]:
        return ()

    def absent_devices(self) -> tuple[AbsentDevice, ...]:
        return (AbsentDevice("deviceless:npu", "Its driver is not loaded."),)

    def abilities(self) -> BackendAbilities:
        return BackendAbilities(absent_devices=self.absent_devices)


def test_a_device_that_is_known_and_not_here_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {**registry._points(), "deviceless": SimpleNamespace(load=_Deviceless)}
    monkeypatch.setattr(registry, "_points", lambda: points)
    forget_backends()
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
    forget_backends()


class _Broken:
    """An entry point whose backend cannot be loaded."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def load(self) -> object:
        raise self.error


@pytest.fixture
def break_backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Exception], None]]:
    """Make a backend of this name one that cannot be loaded."""

    def call(name: str, error: Exception) -> None:
        points = {**registry._points(), name: _Broken(error)}
        monkeypatch.setattr(registry, "_points", lambda: points)
        forget_backends()

    yield call
    forget_backends()


def forget_backends() -> None:
    """Clear what the registry remembers of backends and targets."""
    registry.backend.cache_clear()
    registry.find_target.cache_clear()


_NO_SDK = ImportError("the VeriSilicon SDK is not installed: run 'dovetail sdk install verisilicon'")


@pytest.mark.parametrize("name", ["vsi:v583", "vsi:v85", "vsi:x"])
def test_a_mistyped_target_is_unknown_where_another_backend_serves_its_kind(
    break_backend: Callable[[str, Exception], None], name: str
) -> None:
    break_backend("vsi", _NO_SDK)
    with pytest.raises(DeviceNotFound, match=f"target '{name}' is unknown") as caught:
        find_target(name)
    assert ("Did you mean 'vsi:v853'?" in str(caught.value)) is (name != "vsi:x")
    assert "SDK" not in str(caught.value)
    assert find_target("vsi:v853").name == "vsi:v853"


def test_a_backend_that_alone_serves_a_kind_of_target_is_the_reason(
    break_backend: Callable[[str, Exception], None],
) -> None:
    break_backend("alone", ImportError("No module named 'alone_sdk'"))
    with pytest.raises(DeviceNotFound, match="target 'alone:x' cannot be used here: backend 'alone' cannot") as caught:
        find_target("alone:x")
    assert "No module named 'alone_sdk'" in str(caught.value)


def test_a_backend_that_does_not_run_a_target() -> None:
    with pytest.raises(DeviceNotFound, match="backend 'cpu' has no device for target 'vsi:v853'"):
        find_device("cpu", "vsi:v853")


@pytest.mark.parametrize(
    "error",
    [ImportError("No module named 'openvino'"), OSError("libovx.so: no such file"), AttributeError("old numpy")],
)
def test_a_backend_that_cannot_be_loaded_is_reported_with_the_reason(
    break_backend: Callable[[str, Exception], None], error: Exception
) -> None:
    break_backend("broken", error)
    with pytest.raises(DeviceNotFound, match="backend 'broken' cannot be used") as caught:
        backend("broken")
    status = {item.name: item for item in backend_statuses()}["broken"]
    assert not status.available
    assert str(error) in status.reason
    assert "Install the package" in str(caught.value)
    # The others are not disturbed.
    assert find_target("cpu").name == "cpu"


def test_a_plug_in_that_says_what_to_run_is_not_contradicted(
    break_backend: Callable[[str, Exception], None],
) -> None:
    break_backend("broken", _NO_SDK)
    with pytest.raises(DeviceNotFound, match=r"cannot be used: the VeriSilicon SDK [a-z ]+: run '[a-z ]+'\.$"):
        backend("broken")


def test_only_entry_points_are_looked_at() -> None:
    for name in ("dovetail.backends.cpu", "", "../cpu", "os"):
        with pytest.raises(DeviceNotFound, match="is not installed"):
            backend(name)
    assert all(isinstance(point, EntryPoint) for point in registry._points().values())
