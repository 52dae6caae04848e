"""The queue before a model: bounds, deadlines, requests that nobody waits for, and the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
import work

import dovetail
from dovetail.oip.failures import Reply, RequestRefused
from dovetail.serve import ServeLimits
from dovetail.serve.model import ServedModel


def model_of(bundle: dovetail.Bundle, queue: int = 8) -> ServedModel:
    return ServedModel("small", dovetail.open_session(bundle), "digest", ServeLimits(queue=queue))


def waiting_for(event: threading.Event, ran: list[int], number: int) -> Callable[[int], int]:
    def act(queue_ns: int) -> int:
        assert event.wait(work.PATIENCE_S)
        ran.append(number)
        return number

    return act


def test_a_full_queue_refuses_and_serves_on(bundle: dovetail.Bundle) -> None:
    async def scene() -> None:
        model, event, ran = model_of(bundle), threading.Event(), list[int]()
        tasks = [asyncio.create_task(model.in_turn(waiting_for(event, ran, number))) for number in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(RequestRefused) as caught:
            await model.in_turn(waiting_for(event, ran, 8))
        assert caught.value.reply is Reply.FULL
        assert model.statistics.refused == 1
        event.set()
        assert await asyncio.gather(*tasks) == list(range(8))
        assert await model.in_turn(lambda queue_ns: 9) == 9
        await asyncio.to_thread(model.close)

    asyncio.run(scene())


def test_what_nobody_waits_for_is_not_run(bundle: dovetail.Bundle) -> None:
    async def scene() -> None:
        model, event, ran = model_of(bundle, 64), threading.Event(), list[int]()
        # As many as there are threads at most, so that the next ones wait.
        held = [asyncio.create_task(model.in_turn(waiting_for(event, ran, 0))) for _ in range(8)]
        gone = [asyncio.create_task(model.in_turn(waiting_for(event, ran, 1))) for _ in range(5)]
        last = asyncio.create_task(model.in_turn(waiting_for(event, ran, 2)))
        await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        event.set()
        await asyncio.gather(*held, last)
        assert sorted(ran) == [0] * 8 + [2]
        assert model.statistics.dropped == 5
        await asyncio.to_thread(model.close)

    asyncio.run(scene())


def test_what_comes_too_late_is_given_back(bundle: dovetail.Bundle) -> None:
    async def scene() -> None:
        model, event, ran = model_of(bundle, 64), threading.Event(), list[int]()
        held = [asyncio.create_task(model.in_turn(waiting_for(event, ran, 0))) for _ in range(8)]
        late = asyncio.create_task(model.in_turn(waiting_for(event, ran, 1), within_s=0.0))
        await asyncio.sleep(0.01)
        event.set()
        with pytest.raises(RequestRefused) as caught:
            await late
        assert caught.value.reply is Reply.EXPIRED
        await asyncio.gather(*held)
        assert ran == [0] * 8
        await asyncio.to_thread(model.close)

    asyncio.run(scene())


def test_closing_serves_what_waits(bundle: dovetail.Bundle) -> None:
    async def scene() -> None:
        model, event, ran = model_of(bundle, 64), threading.Event(), list[int]()
        tasks = [asyncio.create_task(model.in_turn(waiting_for(event, ran, number))) for number in range(20)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(model.close))
        event.set()
        assert await asyncio.gather(*tasks) == list(range(20))
        await closing

    asyncio.run(scene())


def test_an_error_nobody_foresaw_is_a_defect_and_the_model_serves_on(bundle: dovetail.Bundle) -> None:
    def broken(queue_ns: int) -> int:
        raise ZeroDivisionError("a secret path")

    async def scene() -> None:
        model = model_of(bundle)
        with pytest.raises(RequestRefused, match="ZeroDivisionError") as caught:
            await model.in_turn(broken)
        assert caught.value.reply is Reply.DEFECT
        assert "secret" not in str(caught.value)
        assert await model.in_turn(lambda queue_ns: 1) == 1
        await asyncio.to_thread(model.close)

    asyncio.run(scene())
