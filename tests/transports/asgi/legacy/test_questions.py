"""The questions of a legacy session wait by the kernel's own rules, so that no transport has time-outs of its own."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule.kernel.dispatch import CallOptions
from ferrule.protocol.errors import ConnectionClosed, RemoteError, RequestTimeout
from ferrule.transports.asgi.legacy.questions import ClientQuestions
from ferrule.wire.codec import decode

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


class Stream:
    """Keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def emit(self, data: bytes) -> None:
        self.sent.append(decode(data))


async def test_an_absolute_cap_alone_ends_a_question() -> None:
    """``max_total_s`` without ``timeout_s`` is a bound too; the client gets a cancellation."""
    stream, questions = Stream(), ClientQuestions()
    with anyio.fail_after(30), pytest.raises(RequestTimeout):
        await questions.ask(stream.emit, stream, "roots/list", None, {"max_total_s": 0.01})
    assert [message["method"] for message in stream.sent] == ["roots/list", "notifications/cancelled"]
    assert len(questions) == 0


async def test_progress_that_only_moves_the_time_out_is_asked_for() -> None:
    """``reset_on_progress`` without a callback needs the token as well, as on every other transport."""
    stream, questions = Stream(), ClientQuestions()
    async with anyio.create_task_group() as group:
        options: CallOptions = {"timeout_s": 5.0, "reset_on_progress": True}
        group.start_soon(questions.ask, stream.emit, stream, "roots/list", None, options)
        await anyio.wait_all_tasks_blocked()
        assert stream.sent[0]["params"]["_meta"]["progressToken"] == stream.sent[0]["id"]
        questions.answer({"id": 1, "result": {}})


async def test_answers_errors_and_the_end_of_a_stream_reach_who_asked() -> None:
    """Each question gets its own outcome; an answer to no question is refused."""
    stream, other, questions = Stream(), Stream(), ClientQuestions()
    outcomes: dict[str, Any] = {}

    async def ask(name: str, channel: Stream) -> None:
        try:
            outcomes[name] = await questions.ask(channel.emit, channel, "roots/list", None, None)
        except Exception as error:
            outcomes[name] = error

    async with anyio.create_task_group() as group:
        for name, channel in (("first", stream), ("second", stream), ("third", other)):
            group.start_soon(ask, name, channel)
            while len(stream.sent) + len(other.sent) <= ("first", "second", "third").index(name):
                await anyio.sleep(0)
        assert questions.answer({"id": 1, "result": {"roots": []}})
        assert questions.answer({"id": 2, "error": {"code": -1, "message": "no"}})
        assert not questions.answer({"id": 2, "result": {}})
        assert not questions.answer({"id": True, "result": {}})
        questions.fail(ConnectionClosed("gone"), other)
    assert outcomes["first"] == {"roots": []}
    assert isinstance(outcomes["second"], RemoteError)
    assert isinstance(outcomes["third"], ConnectionClosed)


async def test_progress_reaches_its_question_only() -> None:
    """The callback is awaited; an unknown token is refused."""
    stream, questions = Stream(), ClientQuestions()
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        await anyio.sleep(0)
        seen.append(progress)

    async with anyio.create_task_group() as group:
        options: CallOptions = {"on_progress": on_progress}
        group.start_soon(questions.ask, stream.emit, stream, "roots/list", None, options)
        while not stream.sent:
            await anyio.sleep(0)
        assert stream.sent[0]["params"]["_meta"]["progressToken"] == 1
        assert await questions.progress({"progressToken": 1, "progress": 2.0})
        assert not await questions.progress({"progressToken": True, "progress": 3.0})
        questions.answer({"id": 1, "result": {"roots": []}})
    assert seen == [2.0]
