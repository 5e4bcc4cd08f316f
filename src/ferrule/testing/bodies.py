"""Runs one body in both eras, to test that its results are the same.

`run_pushed` serves a legacy client that answers each question as a request; `run_in_rounds` serves a modern client
that answers rounds, all at once or a random part at a time, and may send each retry to another server object. Both
return an `Outcome` that can be compared.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ferrule.app.rounds.run import run_body
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.kernel.connection import Connection
from ferrule.kernel.direct import DirectDispatcher
from ferrule.kernel.dispatch import DispatchContext
from ferrule.kernel.runner import ServerRunner, modern_on_request
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.errors import MCPError
from ferrule.wire.types import InputRequiredResult, ToolResult

__all__ = ["AnswerQuestion", "Body", "Outcome", "run_in_rounds", "run_pushed"]

Body: TypeAlias = Callable[[ServerRequestContext[Any]], Awaitable[Any]]
"""The function under test. It gets the kernel's context, for ``rounds_of`` or ``Context(request)``."""

AnswerQuestion: TypeAlias = Callable[[str, Mapping[str, Any]], Any]
"""The client: ``(method, params) -> raw result``, deterministic."""

CLIENT_CAPABILITIES: Mapping[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call.

    Attributes:
        value: the body's result, as JSON; ``None`` if it failed.
        error: the name of the exception's class, or the code of a protocol error; ``None`` if it returned.
        rounds: the number of requests.
    """

    value: Any = None
    error: str | None = None
    rounds: int = 1


def _server(body: Body, settings: RoundsSettings) -> Server[Any]:
    server: Server[Any] = Server("bodies")
    server.attachments[RoundsSettings] = settings

    async def call(ctx: ServerRequestContext[Any]) -> Any:
        try:
            value = await run_body(ctx, body, {"request": ctx})
        except MCPError:
            raise
        except Exception as error:
            return ToolResult(content=[], structured_content={"error": type(error).__name__}, is_error=True)
        if isinstance(value, InputRequiredResult):
            return value
        return ToolResult(content=[], structured_content={"value": value})

    server.add_request_handler("tools/call", call)
    return server


def _outcome(result: Mapping[str, Any], rounds: int) -> Outcome:
    structured = cast("dict[str, Any]", result["structuredContent"])
    return Outcome(structured.get("value"), structured.get("error"), rounds)


class _SerialClient:
    """A legacy client that answers one question at a time, the first in ``order``, when every branch of the body waits.

    A modern client that answers one input request per round does the same, so that the order of answers is equal in
    both eras.
    """

    PASSES = 40

    def __init__(self, answer: AnswerQuestion, order: Callable[[str], Any]) -> None:
        self._answer = answer
        self._order = order
        self._pending: dict[tuple[str, int], Any] = {}
        self._numbers = itertools.count()

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        import asyncio

        entry = question_text(method, params), next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[entry] = future
        try:
            await future
        finally:
            self._pending.pop(entry, None)
        return self._answer(method, params)

    async def work(self) -> None:
        import asyncio

        while True:
            quiet, seen = 0, set[tuple[str, int]]()
            while quiet < self.PASSES:
                await asyncio.sleep(0)
                quiet = quiet + 1 if seen == set(self._pending) else 0
                seen = set(self._pending)
            waiting = [entry for entry, future in self._pending.items() if not future.done()]
            if waiting:
                self._pending[min(waiting, key=lambda entry: (self._order(entry[0]), entry[1]))].set_result(None)
            else:
                await asyncio.sleep(0.0005)


def question_text(method: str, params: Mapping[str, Any]) -> str:
    """Return a name for a question that both eras share."""
    return str(params.get("message") or params.get("messages") or method)


async def run_pushed(
    body: Body,
    answer: AnswerQuestion,
    *,
    order: Callable[[str], Any] | None = None,
    settings: RoundsSettings | None = None,
) -> Outcome:
    """Run ``body`` for a legacy client.

    Args:
        order: answer one question at a time, when every branch of the body waits: the one whose text (`question_text`)
            sorts first by this key. ``None`` answers each question at once.
    """
    serial = None if order is None else _SerialClient(answer, order)
    client, server_end = DirectDispatcher.pair()
    runner = ServerRunner(
        _server(body, settings or RoundsSettings()), Connection.for_loop(server_end), lifespan_state={}
    )
    server_end.serve(runner.handle_request, runner.on_notify)

    async def on_request(_: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        return answer(method, params or {}) if serial is None else await serial.ask(method, params or {})

    async def on_notify(_: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        return None

    client.serve(on_request, on_notify)
    info = {"name": "bodies", "version": "1"}
    opening = {"protocolVersion": "2025-11-25", "capabilities": CLIENT_CAPABILITIES, "clientInfo": info}
    await client.send_raw_request("initialize", opening)
    await client.notify("notifications/initialized")
    call: dict[str, Any] = {"name": "body", "arguments": {}}
    try:
        if serial is None:
            return _outcome(await client.send_raw_request("tools/call", call), 1)
        import asyncio

        worker = asyncio.ensure_future(serial.work())
        try:
            return _outcome(await client.send_raw_request("tools/call", call), 1)
        finally:
            worker.cancel()
    except MCPError as error:
        return Outcome(error=str(error.code))


async def run_in_rounds(
    body: Body,
    answer: AnswerQuestion,
    *,
    shuffle: random.Random | None = None,
    order: Callable[[str], Any] | None = None,
    settings: Callable[[], RoundsSettings] | None = None,
    max_rounds: int = 200,
) -> Outcome:
    """Run ``body`` for a modern client, round by round.

    Args:
        shuffle: answer a random non-empty part of each round's questions, in random order; ``None`` answers all.
        order: answer one question per round, as in `run_pushed`.
        settings: makes the settings of a new server for the next round; they must share the keys of the state.
        max_rounds: number of rounds after which the call fails.
    """
    shared = RoundsSettings(max_rounds=max_rounds, replay_wait_s=0.2)
    params: dict[str, Any] = {
        "name": "body",
        "arguments": {},
        "_meta": {"io.modelcontextprotocol/clientCapabilities": CLIENT_CAPABILITIES},
    }
    retry: dict[str, Any] = {}
    for round_ in range(1, max_rounds + 1):
        client, server_end = DirectDispatcher.pair()
        server = _server(body, shared if settings is None else settings())
        server_end.serve(modern_on_request(server, {}), _ignore)
        client.serve(_refuse, _ignore)
        try:
            result = await client.send_raw_request("tools/call", {**params, **retry})
        except MCPError as error:
            return Outcome(error=str(error.code), rounds=round_)
        if result.get("resultType") != "input_required":
            return _outcome(result, round_)
        requests = cast("dict[str, dict[str, Any]]", result["inputRequests"])
        keys = list(requests)
        if shuffle is not None:
            shuffle.shuffle(keys)
            keys = keys[: shuffle.randint(1, len(keys))]
        if order is not None:
            by = order
            keys = [min(keys, key=lambda key: by(question_text(requests[key]["method"], requests[key]["params"])))]
        answers = {key: answer(requests[key]["method"], requests[key].get("params") or {}) for key in keys}
        retry = {"inputResponses": answers, "requestState": result["requestState"]}
    raise AssertionError(f"The call did not end within {max_rounds} rounds")


async def _ignore(_: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
    return None


async def _refuse(_: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
    raise AssertionError(f"A modern server asked {method}")
