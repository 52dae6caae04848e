"""Compiled models of OpenVINO as executables; border tensors are handed over without a copy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import openvino
from openvino.preprocess import PrePostProcessor

from dovetail.backend.protocols import ExecutableAbilities, InPlace, OperatorTime, Signature
from dovetail.backends.aligned import aligned_empty
from dovetail.backends.feeds import check_feeds
from dovetail.backends.openvino.core import core, reason
from dovetail.errors import DeviceError
from dovetail.ir import AnyArray

CHANNELS_LAST = "DOVETAIL_CHANNELS_LAST"
"""A property of ours: the names of the inputs and outputs that are channels-last in memory, as JSON."""
_FORTH, _BACK = (0, 2, 3, 1), (0, 3, 1, 2)


class OpenVinoExecutable:
    """Run one compiled model; not for two threads at once.

    `source` is the ONNX model, where taps are possible.
    """

    def __init__(self, device: str, compiled: openvino.CompiledModel, signature: Signature, source: TapSource) -> None:
        self._where = f"openvino:{device}"
        self._device = device
        self._signature = signature
        self._source = source
        self._compiled: openvino.CompiledModel | None = compiled
        self._last = source.channels_last
        _check_names(self._where, compiled, signature)
        self._ports = {name: compiled.input(name) for name in signature.inputs}
        self._outlets = {name: compiled.output(name) for name in signature.outputs}
        self._request = compiled.create_infer_request()
        self._read: dict[str, AnyArray | None] = {}
        self._held: dict[str, openvino.Tensor] = {}
        """What the request reads: OpenVINO does not keep the memory alive."""
        self._written: dict[str, AnyArray] = {}
        """The arrays that the request reads and writes already: the borders of a session come again in every run."""
        self._tapped: dict[tuple[str, ...], openvino.InferRequest] = {}
        self._static = all(kind.static_shape is not None for kind in signature.outputs.values())

    def run(self, inputs: Mapping[str, AnyArray], taps: Sequence[str] = ()) -> Mapping[str, AnyArray]:
        """Return the outputs and the tapped tensors as stored values; raise DeviceError."""
        self._check_open()
        check_feeds(self._where, self._signature, inputs)
        kinds = self._signature.outputs
        passed_on = {tap: inputs[tap] for tap in taps if tap in inputs and tap not in kinds}
        inside = tuple(tap for tap in dict.fromkeys(taps) if tap not in kinds and tap not in passed_on)
        if inside:
            return {**self._run_tapped(inputs, inside), **passed_on}
        if self._static:
            outputs = {name: self.empty(name) for name in kinds}
            self.run_into(inputs, outputs)
            return {**outputs, **passed_on}
        self._infer(self._request, inputs)
        return {
            **{name: self._request.get_tensor(port).data.copy() for name, port in self._outlets.items()},
            **passed_on,
        }

    def empty(self, output: str, memory: AnyArray | None = None) -> AnyArray:
        """Return an array that begins at a cache line; the channels of images that stay inside come last in memory."""
        kind = self._signature.outputs[output]
        shape = kind.static_shape or ()
        if output not in self._last:
            return aligned_empty(shape, kind.dtype.carrier, memory)
        return aligned_empty((shape[0], *shape[2:], shape[1]), kind.dtype.carrier, memory).transpose(_BACK)

    def run_into(self, inputs: Mapping[str, AnyArray], outputs: Mapping[str, AnyArray]) -> None:
        """Write the outputs into arrays of the caller; an array of another layout than `empty` gives costs a copy."""
        if self._compiled is None:
            self._check_open()
        copies: list[tuple[AnyArray, AnyArray]] = []
        for name, outlet in self._outlets.items():
            array = outputs[name]
            if self._written.get(name) is not array:
                self._write_to(name, outlet, array, copies)
        self._infer(self._request, inputs)
        for array, made in copies:
            array[...] = made

    def _write_to(
        self, name: str, outlet: openvino.ConstOutput, array: AnyArray, copies: list[tuple[AnyArray, AnyArray]]
    ) -> None:
        view = array.transpose(_FORTH) if name in self._last else array
        if not view.flags.c_contiguous:
            view = np.empty(view.shape, view.dtype)
            copies.append((array, view.transpose(_BACK) if name in self._last else view))
            self._written.pop(name, None)
        else:
            self._written[name] = array
        self._request.set_tensor(outlet, openvino.Tensor(view, shared_memory=True))

    def account(self) -> Mapping[str, str]:
        """Map OpenVINO's operators, after its fusions, to the device."""
        self._check_open()
        assert self._compiled is not None
        devices: dict[str, str] = {}
        for op in self._compiled.get_runtime_model().get_ordered_ops():
            info = op.get_rt_info()
            names = _text(info["originalLayersNames"]) if "originalLayersNames" in info else ""
            devices.update(dict.fromkeys(filter(None, names.split(",")), self._where))
        return devices

    def operator_times(self) -> Sequence[OperatorTime]:
        """Return what OpenVINO measured in the last run."""
        self._check_open()
        try:
            rows = self._request.profiling_info
        except RuntimeError:
            # Without PERF_COUNT there is nothing to tell.
            return ()
        return tuple(
            OperatorTime(row.node_name, row.node_type, int(row.real_time.total_seconds() * 1e9), row.exec_type)
            for row in rows
            if row.real_time
        )

    def abilities(self) -> ExecutableAbilities:
        """Return that it writes in place and gives an account."""
        in_place = InPlace(self.empty, self.run_into)
        return ExecutableAbilities(in_place=in_place, account=self.account, operator_times=self.operator_times)

    def close(self) -> None:
        """Free the model."""
        self._compiled = None
        self._tapped.clear()
        self._read.clear()
        self._held.clear()
        self._written.clear()

    def _check_open(self) -> None:
        if self._compiled is None:
            raise DeviceError(f"{self._where}: the executable is closed.")

    def _infer(self, request: openvino.InferRequest, inputs: Mapping[str, AnyArray]) -> None:
        try:
            for name, port in self._ports.items():
                array = inputs[name]
                if self._read.get(name) is not array:
                    self._refuse_empty(name, array)
                    view = array.transpose(_FORTH) if name in self._last else array
                    tensor, shared = _shared(view)
                    request.set_tensor(port, tensor)
                    self._held[name] = tensor
                    self._read[name] = array if shared else None
            # Without sharing every output is copied into an array that nobody reads.
            request.infer(share_outputs=True)
        except RuntimeError as error:
            raise DeviceError(f"{self._where}: {reason(error)}.") from error

    def _refuse_empty(self, name: str, array: AnyArray) -> None:
        """Raise DeviceError for what OpenVINO dies of where it has one processor (seen in 2026.4.1)."""
        if array.size == 0:
            raise DeviceError(
                f"{self._where}: input '{name}' {list(array.shape)} is empty, which OpenVINO does not survive on one "
                "processor.",
                hint="Give at least one sample, or run the partition on 'cpu'.",
            )

    def _run_tapped(self, inputs: Mapping[str, AnyArray], taps: tuple[str, ...]) -> dict[str, AnyArray]:
        if taps not in self._tapped:
            self._tapped[taps] = self._source.with_outputs(self._where, taps)
        request = self._tapped[taps]
        compiled = request.get_compiled_model()
        try:
            for name in self._signature.inputs:
                self._refuse_empty(name, inputs[name])
            held = {name: _shared(inputs[name])[0] for name in self._signature.inputs}
            for name, tensor in held.items():
                request.set_tensor(compiled.input(name), tensor)
            request.infer(share_outputs=True)
        except RuntimeError as error:
            raise DeviceError(f"{self._where}: {reason(error)}.") from error
        names = (*self._signature.outputs, *taps)
        return {name: request.get_tensor(compiled.output(name)).data.copy() for name in names}


class TapSource:
    """What taps are compiled from; an exported blob has none."""

    def __init__(self, device: str, model: bytes | None, properties: Mapping[str, str]) -> None:
        self.device = device
        self.model = model
        self.own_properties = dict(properties)
        names = json.loads(self.own_properties.pop(CHANNELS_LAST, "[]"))
        self.channels_last = frozenset(str(name) for name in names)

    def compile(self) -> openvino.CompiledModel:
        """Return the model, compiled for the device."""
        return core().compile_model(self._read(), self.device, self.own_properties)

    def _read(self) -> openvino.Model:
        model = core().read_model(self.model)
        if not self.channels_last:
            return model
        steps = PrePostProcessor(model)
        for find, ports in ((steps.input, model.inputs), (steps.output, model.outputs)):
            for name in {name for port in ports for name in port.get_names()} & self.channels_last:
                find(name).tensor().set_layout(openvino.Layout("NHWC"))
                find(name).model().set_layout(openvino.Layout("NCHW"))
        return steps.build()

    def with_outputs(self, where: str, taps: tuple[str, ...]) -> openvino.InferRequest:
        """Return a request of the model that gives inner tensors too; raise DeviceError for unknown ones."""
        if self.model is None:
            raise DeviceError(
                f"{where}: tensor '{taps[0]}' cannot be tapped: the compiled form tells only its outputs."
            )
        try:
            model = core().read_model(self.model)
            model.add_outputs(list(taps))
            return core().compile_model(model, self.device, self.own_properties).create_infer_request()
        except RuntimeError as error:
            raise DeviceError(
                f"{where}: no tensor that the model computes is called '{taps[0]}': {reason(error)}."
            ) from error


def _shared(array: AnyArray) -> tuple[openvino.Tensor, bool]:
    """Return a tensor, and whether it is over the array's own memory: views and read-only data have to be copied."""
    if array.dtype.char in "qQ":
        # C's long long and long are one type here, and OpenVINO knows only the second.
        array = array.view(np.dtype(array.dtype.str))
    fits = array.flags.c_contiguous and array.flags.writeable
    return openvino.Tensor(array if fits else np.array(array, order="C"), shared_memory=True), fits


def _check_names(where: str, compiled: openvino.CompiledModel, signature: Signature) -> None:
    for side, ports, expected in (
        ("inputs", compiled.inputs, signature.inputs),
        ("outputs", compiled.outputs, signature.outputs),
    ):
        names = {name for port in ports for name in port.get_names()}
        if len(ports) != len(expected) or not names.issuperset(expected):
            raise DeviceError(
                f"{where}: the blob has {side} {', '.join(sorted(names)) or 'none'}, "
                f"asked for {', '.join(sorted(expected)) or 'none'}.",
                hint="Compile the model again.",
            )


def _text(value: object) -> str:
    return str(getattr(value, "value", value))
