"""Requests that are run together: their answers are those of requests that are not, byte by byte."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
import tritonclient.grpc
import tritonclient.http
import work
from onnx import TensorProto, helper, numpy_helper
from served import bundle_of, inputs_for, served, small_bundle

import dovetail
from dovetail.bundle import Bundle
from dovetail.errors import DeviceError
from dovetail.ir import AnyArray
from dovetail.oip.failures import Reply, RequestRefused
from dovetail.runtime import Run
from dovetail.serve import ServeLimits
from dovetail.serve.joining import why_not_joined
from dovetail.serve.model import Feed, ServedModel

FORMS: dict[str, ModuleType] = {"http": tritonclient.http, "grpc": tritonclient.grpc}
_THREADS = 4
"""More than a model has."""


def of_nodes(
    nodes: Sequence[onnx.NodeProto], kinds: dict[str, Sequence[int | str]], weights: dict[str, AnyArray]
) -> Bundle:
    """Return the bundle of `x` -> `y` for the CPU in float."""
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, kind) for name, kind in kinds.items()}
    initializer = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    graph = helper.make_graph(list(nodes), "g", [values["x"]], [values["y"]], initializer)
    return bundle_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def fixed() -> Bundle:
    """One row, and no other number."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "m")
    return of_nodes([node], {"x": [1, 8], "y": [1, 4]}, {"w": np.ones((8, 4))})


def mixing() -> Bundle:
    """Rows that are told from their mean: what stands beside one changes it."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], "mean", axes=[0], keepdims=1),
        helper.make_node("Sub", ["x", "m"], ["y"], "sub"),
    ]
    return of_nodes(nodes, {"x": ["N", 8], "y": ["N", 8]}, {})


def folding() -> Bundle:
    """Two rows become one."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"], "fold")]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["M", 16])],
        [numpy_helper.from_array(np.array([-1, 16], np.int64), "s")],
    )
    return bundle_of(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def on_the_npu() -> Bundle:
    """A dense layer in 8 bits, as exact simulation computes it."""
    rng = np.random.default_rng(4)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], "dense"), helper.make_node("Relu", ["h"], ["y"], "relu")]
    kinds = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])
        for name, size in (("x", 8), ("y", 16))
    }
    weight = numpy_helper.from_array(rng.normal(size=(8, 16)).astype(np.float32), "w")
    proto = helper.make_graph(nodes, "npu", [kinds["x"]], [kinds["y"]], [weight])
    place = dovetail.parse_placement("vsi:v853@i8pc")
    with tempfile.TemporaryDirectory() as folder:
        model, data = Path(folder) / "model.onnx", Path(folder) / "x.npz"
        onnx.save(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
        np.savez(data, x=rng.normal(size=(16, 8)).astype(np.float32))
        graph = dovetail.normalize(dovetail.load_model(model))
        ranges = dovetail.calibrate(graph, dovetail.open_samples(str(data), dovetail.specs_of(graph))).ranges
    plan = dovetail.make_plan(graph, dovetail.Recipe(place), {place.target: dovetail.find_target(place.target)})
    return dovetail.compile_model(dovetail.partition(dovetail.quantize(graph, plan, ranges)))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (small_bundle, ""),
        (fixed, "no open first size in common"),
        (mixing, "differs from that of single ones"),
        (folding, "no open first size in common"),
    ],
)
def test_what_may_be_joined(make: Callable[[], Bundle], why: str) -> None:
    with dovetail.open_session(make()) as session:
        found = why_not_joined(session, 8)
    assert (found == "") == (why == "")
    assert why in found


Ask = Callable[[], Feed]


async def crowd(model: ServedModel, asks: Sequence[Ask]) -> list[object]:
    """Let requests wait until all are there, and return their answers or errors, in their order."""
    event = threading.Event()

    def hold(queue_ns: int) -> None:
        assert event.wait(work.PATIENCE_S)

    held = [asyncio.create_task(model.in_turn(hold)) for _ in range(_THREADS)]
    await asyncio.sleep(0)
    tasks = [asyncio.create_task(model.infer(ask, lambda run, feed: run)) for ask in asks]
    await asyncio.sleep(0)
    event.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*held)
    return list(found)


def served_model(bundle: Bundle, **limits: Any) -> ServedModel:
    return ServedModel("m", dovetail.open_session(bundle), "digest", ServeLimits(**limits))


def feeds(bundle: Bundle, rows: Sequence[int]) -> list[Feed]:
    return [Feed(inputs_for(bundle, count, seed), list(bundle.outputs)) for seed, count in enumerate(rows)]


def asks(found: Sequence[Feed]) -> list[Ask]:
    return [lambda feed=feed: feed for feed in found]  # type: ignore[misc]


@pytest.mark.parametrize("make", [small_bundle, on_the_npu])
@pytest.mark.parametrize("rows", [[1] * 24, [1, 3, 2, 7, 1, 1, 9, 4, 16, 17, 1, 0, 2]])
def test_joined_answers_are_those_of_requests_alone(make: Callable[[], Bundle], rows: list[int]) -> None:
    bundle = make()
    asked = feeds(bundle, rows)

    async def scene() -> list[object]:
        model = served_model(bundle, batch_rows=16)
        assert model.why_alone == ""
        found = await crowd(model, asks(asked))
        counts = {count: ran.count for count, (_, ran) in model.statistics.runs.items()}
        assert sum(count * number for count, number in counts.items()) == model.statistics.success.count
        assert max(counts) > 1
        await asyncio.to_thread(model.close)
        return found

    found = asyncio.run(scene())
    with dovetail.open_session(bundle) as session:
        for feed, run in zip(asked, found, strict=True):
            if not len(feed.inputs["x"]):
                continue  # what devices make of no rows is theirs to say
            assert isinstance(run, Run)
            alone = session.run(feed.inputs)
            for name, array in alone.outputs.items():
                assert run.outputs[name].shape == array.shape
                assert run.outputs[name].tobytes() == array.tobytes()


def test_no_run_has_more_rows_than_the_bound() -> None:
    bundle = small_bundle()
    seen: list[int] = []

    async def scene() -> None:
        model = served_model(bundle, batch_rows=4)
        run = model.session.run
        model.session.run = lambda inputs, taps=(): seen.append(len(inputs["x"])) or run(inputs, taps)  # type: ignore[method-assign, func-returns-value]
        await crowd(model, asks(feeds(bundle, [1, 2, 3, 1, 1, 1, 5, 1, 4])))
        await asyncio.to_thread(model.close)

    asyncio.run(scene())
    assert sum(seen) == 19
    assert sorted(seen)[-2:] == [4, 5]  # what is larger by itself runs alone
    assert len(seen) < 9


def test_a_bad_request_in_a_crowd_is_its_own_error_only() -> None:
    bundle = small_bundle()
    good = feeds(bundle, [1] * 6)
    wrong = replace(good[2], inputs={"x": np.zeros((1, 7), np.float32)})

    def unreadable() -> Feed:
        raise DeviceError("cannot be read")

    def broken() -> Feed:
        raise ZeroDivisionError("a secret")

    async def scene() -> list[object]:
        model = served_model(bundle, batch_rows=16)
        found = await crowd(model, [*asks([*good[:2], wrong]), unreadable, broken, *asks(good[3:])])
        assert (model.statistics.success.count, model.statistics.fail.count) == (5, 3)
        await asyncio.to_thread(model.close)
        return found

    found = asyncio.run(scene())
    assert [isinstance(item, Run) for item in found] == [True, True, False, False, False, True, True, True]
    assert isinstance(found[2], DeviceError)
    assert "cannot be read" in str(found[3])
    assert isinstance(found[4], RequestRefused)
    assert found[4].reply is Reply.DEFECT


def test_requests_for_inner_tensors_or_times_run_alone() -> None:
    bundle = small_bundle()
    plain = feeds(bundle, [1] * 4)
    tapped, timed = replace(plain[1], outputs=["h", "y"]), replace(plain[2], alone=True)

    async def scene() -> list[object]:
        model = served_model(bundle, batch_rows=16)
        found = await crowd(model, asks([tapped, timed, tapped, timed]))
        assert list(model.statistics.runs) == [1]
        await asyncio.to_thread(model.close)
        return found

    first = asyncio.run(scene())[0]
    assert isinstance(first, Run)
    with dovetail.open_session(bundle) as session:
        assert first.taps["h"].tobytes() == session.run(tapped.inputs, ["h"]).taps["h"].tobytes()


def test_a_request_waits_for_others_until_the_bound_is_reached() -> None:
    """With a minute to wait, two requests end at once because they are as many rows as may be."""
    bundle = small_bundle()

    async def scene() -> dict[int, int]:
        model = served_model(bundle, batch_rows=2, batch_delay_s=60.0)
        one, two = feeds(bundle, [1, 1])
        first = asyncio.create_task(model.infer(lambda: one, lambda run, feed: run, light=True))
        await asyncio.sleep(0.05)
        assert not first.done()
        await asyncio.gather(first, model.infer(lambda: two, lambda run, feed: run, light=True))
        await asyncio.to_thread(model.close)
        return {count: ran.count for count, (_, ran) in model.statistics.runs.items()}

    assert asyncio.run(scene()) == {2: 1}


def test_who_leaves_while_it_waits_to_be_joined_is_not_run() -> None:
    bundle = small_bundle()

    async def scene() -> None:
        model = served_model(bundle, batch_rows=16)
        event = threading.Event()
        held = [
            asyncio.create_task(model.in_turn(lambda queue_ns: event.wait(work.PATIENCE_S))) for _ in range(_THREADS)
        ]
        await asyncio.sleep(0)
        tasks = [asyncio.create_task(model.infer(ask, lambda run, feed: run)) for ask in asks(feeds(bundle, [1] * 6))]
        await asyncio.sleep(0)
        for task in tasks[1:4]:
            task.cancel()
        await asyncio.sleep(0)
        event.set()
        await asyncio.gather(*held, *tasks, return_exceptions=True)
        await asyncio.to_thread(model.close)
        assert (model.statistics.success.count, model.statistics.dropped) == (3, 3)

    asyncio.run(scene())


@pytest.mark.parametrize("form", sorted(FORMS))
def test_clients_get_their_own_answers_and_the_statistics_count_runs(form: str, tmp_path: Path) -> None:
    bundle, room = small_bundle(), FORMS[form]
    dovetail.save_bundle(bundle, tmp_path / "small")
    wrong: list[object] = []
    with served(tmp_path, ["--batch-rows", 8, "--batch-delay", 5]) as server:
        address = server.rest if form == "http" else server.grpc

        def ask(number: int) -> None:
            try:
                with room.InferenceServerClient(address) as client, dovetail.open_session(bundle) as session:
                    for turn in range(10):
                        arrays = inputs_for(bundle, 1 + (number + turn) % 3, 100 * number + turn)
                        tensor = room.InferInput("x", arrays["x"].shape, "FP32")
                        tensor.set_data_from_numpy(arrays["x"])
                        found = client.infer("small", [tensor]).as_numpy("y")
                        if found.tobytes() != session.run(arrays).outputs["y"].tobytes():
                            wrong.append((number, turn))
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with room.InferenceServerClient(address) as client:
            json = {} if form == "http" else {"as_json": True}
            told = client.get_inference_statistics("small", **json)["model_stats"][0]
            config = client.get_model_config("small", **json)
    assert wrong == []
    assert config.get("config", config)["parameters"]["joined"]["string_value"] == "yes"
    rows = [(int(row["batch_size"]), int(row["compute_infer"]["count"])) for row in told["batch_stats"]]
    assert int(told["inference_count"]) == sum(size * count for size, count in rows) == 80
    assert int(told["execution_count"]) == sum(count for _, count in rows) < 80
