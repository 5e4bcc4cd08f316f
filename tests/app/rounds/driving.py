"""Drives a tool named ``body`` in both eras, one request at a time, without a transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ferrule import MCPServer
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.kernel.dispatch import TransportContext
from ferrule.protocol.errors import MCPError
from ferrule.testing.bodies import CLIENT_CAPABILITIES, question_text
from ferrule.transports.asgi.context import HttpContext
from tests.app.support import LATEST, V1125, RecordingDispatch, ask, connection_of

KEY = b"a key of thirty-two bytes or more"

Answer = Callable[[str, Mapping[str, Any]], Any]


def accept(value: Any) -> dict[str, Any]:
    """The user filled in a form of one value."""
    return {"action": "accept", "content": {"value": value}}


def always(value: Any) -> Answer:
    """Every question gets this value."""
    return lambda method, params: accept(value)


class Dispatch(RecordingDispatch):
    """The way back of one request: records what is said, answers what is asked, and can be answered early."""

    __slots__ = ("answer_with", "asked", "early", "transport")

    can_send_request = True

    def __init__(self, answer: Answer | None = None, principal: Any = None) -> None:
        super().__init__()
        self.answer_with = answer
        self.asked: list[str] = []
        self.early: list[Any] = []
        self.transport = TransportContext("test") if principal is None else HttpContext(principal=principal)

    async def send_raw_request(self, method: str, params: Any = None, opts: Any = None) -> Any:
        self.asked.append(question_text(method, params or {}))
        assert self.answer_with is not None
        await asyncio.sleep(0)
        answer = self.answer_with(method, params or {})
        return await answer if hasattr(answer, "__await__") else answer

    async def answer(self, result: Any = None, *, error: Exception | None = None) -> None:
        self.early.append(result if error is None else error)


async def push(
    app: MCPServer, answer: Answer, *, dispatch: Dispatch | None = None, name: str = "body", **arguments: Any
):
    """A legacy call: each question is a request, answered by ``answer``."""
    dispatch = dispatch or Dispatch(answer)
    dispatch.answer_with = answer
    connection = connection_of(V1125, client_capabilities_raw=CLIENT_CAPABILITIES)
    params = {"name": name, "arguments": arguments}
    return await ask(app, "tools/call", params, dispatch=dispatch, connection=connection, version=V1125)


class Call:
    """One logical call of a modern client.

    Attributes:
        requests: of the last round, by key.
        state: of the last round.
        result: the finished result, ``None`` while there are questions.
    """

    def __init__(self, app: MCPServer, *, name: str = "body", principal: Any = None, **arguments: Any) -> None:
        self.app = app
        self.name = name
        self.arguments = arguments
        self.principal = principal
        self.capabilities: Mapping[str, Any] = CLIENT_CAPABILITIES
        self.requests: dict[str, Any] = {}
        self.state: Any = None
        self.result: Any = None
        self.dispatch = Dispatch()

    @property
    def texts(self) -> list[str]:
        """What is asked, in words."""
        return [question_text(asked["method"], asked.get("params") or {}) for asked in self.requests.values()]

    def request(self, responses: Any = None, *, method: str = "tools/call", **changes: Any) -> Any:
        """The coroutine of one request; ``changes`` replace params."""
        params: dict[str, Any] = {"name": self.name, "arguments": self.arguments}
        if self.state is not None:
            params["requestState"] = self.state
        if responses is not None:
            params["inputResponses"] = responses
        self.dispatch = Dispatch(principal=self.principal)
        connection = connection_of(LATEST, client_capabilities_raw=self.capabilities)
        return ask(self.app, method, {**params, **changes}, dispatch=self.dispatch, connection=connection)

    async def send(self, responses: Any = None, **changes: Any) -> Call:
        """One round; ``responses`` by key."""
        result = await self.request(responses, **changes)
        if result["resultType"] == "input_required":
            self.requests, self.state = result.get("inputRequests", {}), result.get("requestState")
        else:
            self.requests, self.result = {}, result
        return self

    async def reply(self, answer: Any) -> Call:
        """Answer every question of the round with a raw result."""
        return await self.send(dict.fromkeys(self.requests, answer))

    async def finish(self, answer: Answer, limit: int = 40) -> dict[str, Any]:
        """Answer until it ends."""
        await self.send()
        for _ in range(limit):
            if self.result is not None:
                return self.result
            await self.send(
                {key: answer(asked["method"], asked.get("params") or {}) for key, asked in self.requests.items()}
            )
        raise AssertionError("the call does not end")


async def outcome(coroutine: Any) -> Any:
    """The text of the only block, or ``code reason`` of a protocol error."""
    try:
        result = await coroutine
    except MCPError as error:
        data = error.data if isinstance(error.data, dict) else {}
        return f"{error.code} {data.get('reason', error.message)}"
    return result["content"][0]["text"]


async def both(app: MCPServer, answer: Answer, **arguments: Any) -> Any:
    """The outcome, equal in both eras."""
    pushed = await outcome(push(app, answer, **arguments))
    replayed = await outcome(Call(app, **arguments).finish(answer))
    assert pushed == replayed
    return pushed


def settings_of(app: MCPServer) -> RoundsSettings:
    """To be changed by a test."""
    return app.lowlevel.attachments[RoundsSettings]


def served(**options: Any) -> MCPServer:
    """A server with a known key and a short patience, that shows what bodies raise."""
    app = MCPServer("x", state_keys=options.pop("state_keys", [KEY]), mask_errors=False, **options)
    settings_of(app).replay_wait_s = 0.05
    settings_of(app).grace_s = 0.05
    return app


async def settled(passes: int = 30) -> None:
    """Let everything happen that can."""
    for _ in range(passes):
        await asyncio.sleep(0)
