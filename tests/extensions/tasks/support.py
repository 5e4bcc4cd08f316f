"""A client of a server with tasks, in either era."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ferrule.app.server import MCPServer
from ferrule.extensions.tasks import Tasks
from ferrule.extensions.tasks.context import TaskTransport
from ferrule.kernel.connection import Connection
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS
from tests.app.support import RecordingDispatch, ask

TASKS = "io.modelcontextprotocol/tasks"
LEGACY = "2025-11-25"
CAPABLE: dict[str, Any] = {"extensions": {TASKS: {}}, "elicitation": {}, "sampling": {}, "roots": {}}


class ModernDispatch(RecordingDispatch):
    """A dispatch context with the sender's principal."""

    transport: Any = RecordingDispatch.transport


class Modern:
    """A modern client: each request brings its capabilities."""

    def __init__(self, app: MCPServer[Any], capabilities: Any = CAPABLE, principal: Any = None) -> None:
        self.app = app
        self.capabilities = capabilities
        self.dispatch = ModernDispatch()
        if principal is not None:
            self.dispatch.transport = TaskTransport(principal=principal)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, self.capabilities, outbound=self.dispatch)
        return await ask(self.app, method, params, connection=connection, dispatch=self.dispatch)

    async def call(self, name: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
        return await self.ask("tools/call", name=name, arguments=arguments or {}, **more)

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.ask("tasks/get", taskId=task_id)

    async def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """Poll until the task has one of the statuses (final ones if none are named)."""
        wanted = statuses or ("completed", "failed", "cancelled")
        async with asyncio.timeout(30):
            while True:
                task = await self.get(task_id)
                if task["status"] in wanted:
                    return task
                await asyncio.sleep(0.001)


class AnsweringDispatch(RecordingDispatch):
    """A legacy request's way back, with a client that answers what it is asked."""

    can_send_request = True

    def __init__(self, answers: Any = None) -> None:
        super().__init__()
        self.asked: list[tuple[str, Any]] = []
        self.answers = answers

    async def send_raw_request(self, method: str, params: Any = None, opts: Any = None) -> dict[str, Any]:
        self.asked.append((method, params))
        answer = self.answers(method, params)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Legacy:
    """A client of 2025-11-25 on one connection."""

    def __init__(self, app: MCPServer[Any], answers: Any = None, version: str = LEGACY) -> None:
        self.app = app
        self.dispatch = AnsweringDispatch(answers)
        self.connection = Connection(self.dispatch, REVISIONS[version])
        self.connection.initialize_accepted = True
        self.connection.client_capabilities_raw = {"elicitation": {}, "sampling": {}, "roots": {}}
        self.connection.initialized.set()

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await ask(self.app, method, params, connection=self.connection, dispatch=self.dispatch)

    async def start(self, name: str, arguments: Any = None, ttl: int | None = None) -> dict[str, Any]:
        task = {} if ttl is None else {"ttl": ttl}
        return await self.ask("tools/call", name=name, arguments=arguments or {}, task=task)


@asynccontextmanager
async def process(app: MCPServer[Any]) -> AsyncGenerator[Modern]:
    async with app.lowlevel.lifespan():
        yield Modern(app)


def tasks_of(app: MCPServer[Any]) -> Tasks:
    found = app.extensions[TASKS]
    assert isinstance(found, Tasks)
    return found
