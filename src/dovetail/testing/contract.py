"""What every backend must do, as a pytest base class for third parties.

class TestMine(BackendContract):
    backend = my_package.backend

A compiler without a device is allowed: what needs one is then skipped.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np
import pytest

from dovetail.backend.containment import CompilerPlace, Worker, WorkerLimits, compile_contained, load_contained
from dovetail.backend.protocols import (
    ALIGNMENT_BYTES,
    AbsentDevice,
    Backend,
    BackendAbilities,
    Blob,
    CompileOptions,
    Device,
    Executable,
    ExecutableAbilities,
    Signature,
)
from dovetail.backend.target import Target, TargetVerdict
from dovetail.errors import CompileError, DeviceError, DovetailError
from dovetail.ir import AnyArray, DType, Graph, Node, TensorType
from dovetail.ir.precision import Precision
from dovetail.runtime.checks import is_finite
from dovetail.testing.cases import CASES, QuantizedCase, quantized

RUN_CASES = (
    "Add",
    "Concat",
    "Conv",
    "DequantizeLinear",
    "Gemm",
    "MaxPool",
    "Mul",
    "QuantizeLinear",
    "Relu",
    "Reshape",
    "Sigmoid",
    "Softmax",
    "Transpose",
)
"""Cases that are compiled and run; verdicts are asked for all."""

BATCHED_CASES = ("Add", "Conv", "MaxPool", "Relu", "Sigmoid")
"""Cases whose first dimension may be a batch."""


@dataclass(frozen=True, slots=True)
class ContractCase:
    """A graph that a target says it supports, with a device that runs it."""

    label: str
    target: Target
    case: QuantizedCase
    device: Device


def odd_graphs() -> Iterator[Graph]:
    """Yield valid graphs that most targets refuse; asking about them must be safe."""
    real = TensorType(DType.F32, (1, 4, 8, 8))

    def one(node: Node, before: TensorType, after: TensorType) -> Graph:
        return Graph("odd", (node,), ("x",), ("y",), {"x": before, "y": after})

    relu = Node("n", "Relu", ("x",), ("y",))
    yield one(Node("n", "NoSuchOperator", ("x",), ("y",)), real, real)
    yield one(Node("n", "Relu", ("x",), ("y",), domain="com.example"), real, real)
    yield one(relu, replace(real, shape=None), replace(real, shape=None))
    yield one(relu, replace(real, shape=("N", 4, "H", None)), replace(real, shape=("N", 4, "H", None)))
    yield one(relu, replace(real, shape=(1,) * 12), replace(real, shape=(1,) * 12))
    yield one(relu, replace(real, shape=()), replace(real, shape=()))
    yield one(relu, replace(real, shape=(0, 4)), replace(real, shape=(0, 4)))
    yield one(Node("n", "Shape", ("x",), ("y",)), real, TensorType(DType.I64, (4,)))
    yield one(Node("n", "Cast", ("x",), ("y",), {"to": 7}), real, TensorType(DType.I64, (1, 4, 8, 8)))


class BackendContract:
    """Inherit, set `backend`, and let pytest run what is below."""

    backend: Backend
    same_bytes = True
    """Whether compiling twice gives the same bytes; set it to False where the vendor's compiler stamps them."""
    limits: WorkerLimits | None = None
    """Set it to compile and run in worker processes: what crashes or hangs then fails one test, and not all."""

    def test_names(self) -> None:
        """The backend and its targets have names, precisions and arithmetic."""
        assert self.backend.name
        assert self.backend.version
        targets = self.backend.targets()
        assert len({target.name for target in targets}) == len(targets)
        for target in targets:
            assert target.name
            assert target.precisions
            assert len(set(target.precisions)) == len(target.precisions)
            assert target.arithmetic.default is not None

    def test_abilities(self) -> None:
        """What the backend says that it can do besides can be called, and answers with what it should."""
        abilities = self.backend.abilities()
        assert isinstance(abilities, BackendAbilities)
        assert abilities.options <= {item.name for item in fields(CompileOptions)}
        for gone in abilities.absent_devices() if abilities.absent_devices is not None else ():
            assert isinstance(gone, AbsentDevice)
            assert _is_one_line(gone.reason), gone.name
        for target in self.backend.targets():
            for tells in (abilities.compiles_in_process, abilities.takes_channels_last):
                assert tells is None or tells(target) in (True, False), target.name
            assert isinstance(target.mark, str), target.name
        for called, arguments in (
            (abilities.model_cycles, 3),
            (abilities.write_project, 4),
            (abilities.cost_sources, 0),
            (abilities.stand_in, 4),
        ):
            assert called is None or inspect.signature(called).bind(*[None] * arguments)
        assert not abilities.software or _is_one_line(abilities.software)
        assert abilities.with_limit is None or abilities.with_limit(5.0).version == self.backend.version
        if abilities.find_target is not None:
            assert abilities.find_target("no:such:target") is None

    def test_blobs_are_told_apart(self) -> None:
        """A blob of another format holds neither a model nor a vendor's binary; an executable tells what it can do."""
        abilities, other = self.backend.abilities(), Blob("no-such-format", b"")
        for read in (abilities.onnx_of, abilities.vendor_binary):
            assert read is None or read(other) is None
        for trial in self.trials():
            if abilities.onnx_of is not None:
                model = abilities.onnx_of(self.compile(trial))
                assert model is None or isinstance(model, bytes), trial.label
            executable = self.load(trial)
            assert isinstance(executable.abilities(), ExecutableAbilities), trial.label
            executable.close()
            break

    def test_devices_accept_only_what_they_can_name(self) -> None:
        """Devices have different names, and every target that is compiled is known to `accepts` without raising."""
        devices = self.backend.devices()
        assert len({device.name for device in devices}) == len(devices)
        for device in devices:
            for target in self.backend.targets():
                assert device.accepts(target.name) in (True, False)

    def test_verdicts_have_reasons(self) -> None:
        """A verdict never raises, and a refusal says why in one line."""
        graphs = [case.graph() for case in CASES]
        for target in self.backend.targets():
            for graph in (*graphs, *odd_graphs()):
                for precision in Precision:
                    verdict = target.verdict(graph, graph.nodes[0], precision)
                    _check_verdict(verdict, target, graph.nodes[0], precision)

    def test_what_is_refused_does_not_crash_the_compiler(self) -> None:
        """Compiling an odd graph gives a blob or a CompileError."""
        for target in self.backend.targets():
            for graph in odd_graphs():
                message = _refusal(CompileError, partial(self.compile_graph, graph, target))
                assert message is None or _is_one_line(message)

    def test_outputs_are_as_declared(self) -> None:
        """What a verdict supports compiles, loads and runs to arrays of the declared types and shapes, without NaN."""
        for trial in self.trials():
            executable = self.load(trial)
            for sample in trial.case.inputs:
                outputs = executable.run(sample)
                _check_outputs(trial, outputs)
                if all(is_finite(value) for value in sample.values()):
                    bad = [name for name, value in outputs.items() if not is_finite(value)]
                    assert not bad, f"{trial.label}: NaN or infinity in '{bad[0]}' from finite inputs"
            executable.close()

    def test_runs_are_deterministic(self) -> None:
        """The same input gives the same bytes, in one executable, in another and from another compilation."""
        for trial in self.trials():
            first, second = self.load(trial), self.load(trial)
            sample, other = trial.case.inputs[0], trial.case.inputs[1]
            expected = {name: value.tobytes() for name, value in first.run(sample).items()}
            second.run(other)
            for executable in (first, second):
                assert {name: value.tobytes() for name, value in executable.run(sample).items()} == expected, (
                    trial.label
                )
            if self.same_bytes:
                assert self.compile(trial) == self.compile(trial), trial.label

    def test_inputs_are_left_alone(self) -> None:
        """A run neither changes its inputs nor needs to write to them."""
        for trial in self.trials():
            sample = {name: value.copy() for name, value in trial.case.inputs[0].items()}
            for value in sample.values():
                value.setflags(write=False)
            self.load(trial).run(sample)
            for name, value in trial.case.inputs[0].items():
                assert value.tobytes() == sample[name].tobytes(), trial.label

    def test_in_place(self) -> None:
        """Running in place gives what `run` gives, in its own arrays and in others, and reads inputs anew."""
        for trial in self.trials():
            executable, names = self.load(trial), trial.case.graph.outputs
            in_place = executable.abilities().in_place
            if in_place is None:
                # A skip keeps this frame, and with it what is loaded.
                executable.close()
                pytest.skip("the executables of this backend do not write in place")
            expected = [executable.run(sample) for sample in trial.case.inputs[:2]]
            own = {name: in_place.empty(name, _memory_for(expected[0][name])) for name in names}
            _check_outputs(trial, own)
            plain = {name: np.empty_like(expected[0][name], order="C") for name in names}
            held = {name: value.copy() for name, value in trial.case.inputs[0].items()}
            for buffers in (own, plain, own):
                for sample, right in zip(trial.case.inputs[:2], expected, strict=True):
                    for name, value in sample.items():
                        held[name][...] = value
                    in_place.run(held, buffers)
                    for name in names:
                        assert buffers[name].tobytes() == right[name].tobytes(), trial.label

    def test_several_threads(self) -> None:
        """Where `run` may be called from several threads at a time, each gets what one alone would."""
        for trial in self.trials():
            executable = self.load(trial)
            if not executable.abilities().concurrent:
                # A skip keeps this frame, and with it what is loaded.
                executable.close()
                pytest.skip("the executables of this backend run in one thread at a time")
            samples = list(trial.case.inputs[:2]) * 8
            expected = [executable.run(sample) for sample in samples]
            with ThreadPoolExecutor(4) as pool:
                for values, right in zip(pool.map(executable.run, samples), expected, strict=True):
                    for name in trial.case.graph.outputs:
                        assert values[name].tobytes() == right[name].tobytes(), trial.label

    def test_taps(self) -> None:
        """A tap is answered with the stored tensor or with a DeviceError; an unknown name always with a DeviceError."""
        for trial in self.trials():
            executable, sample = self.load(trial), trial.case.inputs[0]
            output = trial.case.graph.outputs[0]
            found = executable.run(sample, (output,))
            assert found[output].tobytes() == executable.run(sample)[output].tobytes(), trial.label
            _check_refused(partial(executable.run, sample, ("no such tensor",)), f"{trial.label}: an unknown tap")

    def test_wrong_inputs_are_refused(self) -> None:
        """A wrong name, type, rank or shape, a missing or an extra input is a DeviceError in one line."""
        for trial in self.trials():
            executable, sample = self.load(trial), dict(trial.case.inputs[0])
            for what, wrong in _spoilt(sample):
                _check_refused(partial(executable.run, wrong), f"{trial.label}: {what}")
            executable.run(sample)

    def test_not_a_number_is_survived(self) -> None:
        """NaN and infinity in a float input give arrays of the declared type."""
        for trial in self.trials():
            sample = dict(trial.case.inputs[0])
            floats = [name for name, value in sample.items() if value.dtype.kind == "f"]
            for bad in (np.nan, np.inf, -np.inf) if floats else ():
                filled = {name: np.full_like(sample[name], bad) for name in floats}
                _check_outputs(trial, self.load(trial).run({**sample, **filled}))

    def test_damaged_blobs_are_refused(self) -> None:
        """A blob that is cut, empty, foreign or of another format is a DeviceError."""
        for trial in self.trials():
            blob, signature = self.compile(trial), Signature.of(trial.case.graph)
            payload = blob.payload
            for bad in (b"", payload[: len(payload) // 2], payload[1:], b"\xff" * 64, b"\x00" * len(payload)):
                load = partial(trial.device.load, Blob(blob.format, bad), signature)
                _check_refused(load, f"{trial.label}: a damaged blob of {len(bad)} bytes")
            foreign = partial(trial.device.load, Blob("no-such-format", payload), signature)
            _check_refused(foreign, f"{trial.label}: a blob of another format")

    def test_another_signature_is_refused(self) -> None:
        """A blob does not load for inputs or outputs of other names."""
        for trial in self.trials():
            blob, signature = self.compile(trial), Signature.of(trial.case.graph)
            inputs = {f"{name}'": kind for name, kind in signature.inputs.items()}
            outputs = {f"{name}'": kind for name, kind in signature.outputs.items()}
            for wrong in (Signature(inputs, signature.outputs), Signature(signature.inputs, outputs)):
                _check_refused(partial(trial.device.load, blob, wrong), f"{trial.label}: other names")

    def test_closing_twice_is_allowed(self) -> None:
        """`close` may be called again, and closing one executable leaves another alone."""
        for trial in self.trials():
            first, second = self.load(trial), self.load(trial)
            first.close()
            first.close()
            _check_outputs(trial, second.run(trial.case.inputs[0]))

    def test_batches(self) -> None:
        """With a symbolic first dimension a batch gives the same stored values as its samples one by one."""
        for trial in self.trials(BATCHED_CASES, _with_batch):
            executable, sample = self.load(trial), trial.case.inputs[0]
            whole = executable.run(sample)
            for index in range(len(next(iter(sample.values())))):
                alone = executable.run({name: value[index : index + 1] for name, value in sample.items()})
                for name, value in alone.items():
                    assert value.shape == whole[name][index : index + 1].shape, trial.label
                    _check_same(value, whole[name][index : index + 1], trial.label)

    def test_empty_batches(self) -> None:
        """A batch of no samples gives empty outputs or a DeviceError."""
        for trial in self.trials(BATCHED_CASES, _with_batch):
            executable = self.load(trial)
            none = {name: value[:0] for name, value in trial.case.inputs[0].items()}
            message = _refusal(DeviceError, partial(executable.run, none))
            if message is None:
                assert all(value.shape[0] == 0 for value in executable.run(none).values()), trial.label
            else:
                assert _is_one_line(message)

    def trials(
        self, names: tuple[str, ...] = RUN_CASES, change: Callable[[Graph], Graph] = lambda graph: graph
    ) -> Iterator[ContractCase]:
        """Yield what the backend supports; skip the test when that is nothing."""
        any_runs = False
        for target in self.backend.targets():
            device = next((one for one in self.backend.devices() if one.accepts(target.name)), None)
            for case in CASES if device is not None else ():
                for precision in target.precisions if case.name in names else ():
                    trial_case = quantized(case, precision)
                    trial_case = replace(trial_case, graph=change(trial_case.graph))
                    if target.verdict(trial_case.graph, trial_case.graph.nodes[0], precision).supported:
                        any_runs = True
                        assert device is not None
                        yield ContractCase(
                            f"{case.name} at {precision.value} on {target.name}", target, trial_case, device
                        )
        if not any_runs:
            pytest.skip("the backend supports none of these cases on a device that is here")

    def compile(self, trial: ContractCase) -> Blob:
        """Return the compiled trial."""
        return self.compile_graph(trial.case.graph, trial.target)

    def compile_graph(self, graph: Graph, target: Target) -> Blob:
        """Return a compiled graph."""
        if self.limits is None:
            return self.backend.compile(graph, target, CompileOptions())
        worker = Worker(self.limits)
        try:
            return compile_contained(worker, CompilerPlace(self.backend.name, target.name), graph, CompileOptions())
        finally:
            worker.close()

    def load(self, trial: ContractCase) -> Executable:
        """Return the trial ready to run."""
        blob, signature = self.compile(trial), Signature.of(trial.case.graph)
        if self.limits is None:
            return trial.device.load(blob, signature)
        return load_contained(CompilerPlace(self.backend.name, trial.target.name), blob, signature, self.limits)


def _check_verdict(verdict: TargetVerdict, target: Target, node: Node, precision: Precision) -> None:
    label = f"{node.label} at {precision.value} on {target.name}"
    assert (verdict.node, verdict.op, verdict.target) == (node.name, node.op, target.name), label
    assert verdict.precision is precision, label
    if verdict.supported:
        assert not verdict.reason, label
        assert verdict.engine is not None, label
        assert precision in target.precisions, label
    else:
        assert verdict.reason.strip(), label
        assert "\n" not in verdict.reason, label


def _refusal(kind: type[DovetailError], action: Callable[[], object]) -> str | None:
    """Return the message of the error that an action raises, or None when it raises none."""
    try:
        action()
    except kind as error:
        return str(error)
    return None


def _check_refused(action: Callable[[], object], what: str) -> None:
    message = _refusal(DeviceError, action)
    assert message is not None, f"{what} was accepted"
    assert _is_one_line(message), message


def _is_one_line(message: str) -> bool:
    return bool(message.strip()) and "\n" not in message


def _memory_for(array: AnyArray) -> AnyArray:
    """Return bytes that begin at a cache line, more than the array needs."""
    raw = np.empty(array.nbytes + 2 * ALIGNMENT_BYTES, np.uint8)
    return raw[-raw.ctypes.data % ALIGNMENT_BYTES :]


def _check_outputs(trial: ContractCase, outputs: Mapping[str, AnyArray]) -> None:
    graph = trial.case.graph
    assert set(outputs) == set(graph.outputs), f"{trial.label}: it gives {sorted(outputs)}, not {sorted(graph.outputs)}"
    for name in graph.outputs:
        kind = graph.types[name]
        dtype, shape = outputs[name].dtype, outputs[name].shape
        assert dtype == kind.dtype.carrier, f"{trial.label}: '{name}' is {dtype}, not {kind.dtype.carrier}"
        assert shape == kind.static_shape, f"{trial.label}: '{name}' has shape {shape}, not {kind.static_shape}"


def _check_same(first: AnyArray, other: AnyArray, label: str) -> None:
    if first.dtype.kind == "f":
        # Floats may be summed in another order for another batch.
        np.testing.assert_allclose(
            first, other, rtol=1e-2 if first.dtype.itemsize == 2 else 1e-4, atol=1e-4, err_msg=label
        )
    else:
        np.testing.assert_array_equal(first, other, err_msg=label)


def _with_batch(graph: Graph) -> Graph:
    types = dict(graph.types)
    for name in (*graph.inputs, *graph.outputs):
        shape = types[name].shape
        assert shape is not None
        types[name] = replace(types[name], shape=("N", *shape[1:]))
    return graph.evolve(types=types)


def _spoilt(sample: dict[str, AnyArray]) -> Iterator[tuple[str, dict[str, AnyArray]]]:
    name = next(iter(sample))
    value = sample[name]
    rest = {key: item for key, item in sample.items() if key != name}
    yield "a missing input", rest
    yield "another name", {**rest, f"{name}'": value}
    yield "an extra input", {**sample, "extra": value}
    yield "another type", {**rest, name: value.astype(np.complex64)}
    yield "doubles", {**rest, name: value.astype(np.float64)}
    yield "a wider shape", {**rest, name: np.concatenate([value, value], axis=-1)}
    yield "another rank", {**rest, name: value[None]}
    yield "a list", {**rest, name: value.tolist()}
