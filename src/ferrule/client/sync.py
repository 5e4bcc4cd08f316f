"""`SyncClient`: the same client without ``await``, for scripts and notebooks.

One event loop in one daemon thread serves every synchronous client of the process. A call blocks only the calling
thread; Ctrl-C cancels the call, also at the server. Handlers and callbacks run in the thread of the loop, so they must
not use the same client synchronously: such a call raises an error, since it could never end. After ``os.fork()`` the
child process gets a loop, a thread and connections of its own.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ferrule.client.client import Client
from ferrule.transports.loop_thread import LoopThread, keep_for_parent

if TYPE_CHECKING:
    from ferrule.client.bridges.apis.known import ApiName
    from ferrule.client.bridges.bridge import Answer
    from ferrule.client.bridges.options import AnswerOptions, ToolsForOptions
    from ferrule.client.calls.results import ToolCallResult
    from ferrule.client.calls.subscriptions import ChangeEvent
    from ferrule.client.options import (
        ClientOptions,
        CompleteOptions,
        GetPromptOptions,
        ReadResourceOptions,
        ToolCallOptions,
    )
    from ferrule.client.skills.skill import ServerSkill
    from ferrule.wire.types import (
        Completion,
        GetPromptResult,
        Implementation,
        Prompt,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        Tool,
    )

__all__ = ["SyncClient", "SyncSkill"]

T = TypeVar("T")


_loop = LoopThread("ferrule-sync")


class SyncSkill:
    """A `ServerSkill` with synchronous methods.

    Attributes:
        skill: the asynchronous one, with all facts.
    """

    def __init__(self, skill: ServerSkill) -> None:
        self.skill = skill

    def __repr__(self) -> str:
        return repr(self.skill)

    @property
    def name(self) -> str:
        """See `ServerSkill.name`."""
        return self.skill.name

    @property
    def description(self) -> str:
        """See `ServerSkill.description`."""
        return self.skill.description

    @property
    def uri(self) -> str:
        """The URI of its ``SKILL.md``."""
        return self.skill.uri

    def load(self) -> str:
        """See `ServerSkill.load`."""
        return _loop.run(self.skill.load())

    def read(self, path: str) -> bytes:
        """See `ServerSkill.read`."""
        return _loop.run(self.skill.read(path))

    def refresh(self) -> None:
        """See `ServerSkill.refresh`."""
        _loop.run(self.skill.refresh())


class SyncClient:
    """A client with synchronous methods; targets and options are those of `Client`.

    ``with SyncClient(target) as client:``, or `connect` and `close`. A client that is open when the process exits is
    closed then.
    """

    def __init__(self, target: Any, **options: Unpack[ClientOptions]) -> None:
        self._make = partial(Client, target, **options)
        self._client: Client = self._make()
        self._pid = os.getpid()
        self._is_open = False

    @property
    def client(self) -> Client:
        """The asynchronous client that is used. In a forked process it is a new one, connected on first use if the
        parent's was connected: connections and server processes still belong to the parent."""
        if self._pid != os.getpid():
            keep_for_parent(self._client)
            self._client, self._pid = self._make(), os.getpid()
            if self._is_open:
                self.connect()
        return self._client

    def __enter__(self) -> SyncClient:
        return self.connect()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def connect(self) -> SyncClient:
        """See `Client.connect`."""
        self._is_open = False
        client = self.client
        _loop.run(client.connect())
        _loop.open.add(client)
        self._is_open = True
        return self

    def close(self) -> None:
        """See `Client.aclose`."""
        self._is_open = False
        client = self.client
        _loop.open.discard(client)
        _loop.run(client.aclose())

    @property
    def protocol_version(self) -> str:
        """The revision in use."""
        return self.client.protocol_version

    @property
    def server_info(self) -> Implementation | None:
        """Name and version that the server reports."""
        return self.client.server_info

    @property
    def instructions(self) -> str | None:
        """The server's guidance for the model."""
        return self.client.instructions

    def list_tools(self) -> list[Tool]:
        """See `Client.list_tools`."""
        return _loop.run(self.client.list_tools())

    def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[ToolCallOptions]
    ) -> ToolCallResult:
        """See `Client.call_tool`."""
        return _loop.run(self.client.call_tool(name, arguments, **options))

    def tools_for(self, api: ApiName, **options: Unpack[ToolsForOptions]) -> list[dict[str, Any]]:
        """See `Client.tools_for`."""
        return _loop.run(self.client.tools_for(api, **options))

    def answer(self, response: Any, **options: Unpack[AnswerOptions]) -> Answer:
        """See `Client.answer`."""
        return _loop.run(self.client.answer(response, **options))

    def list_resources(self) -> list[Resource]:
        """See `Client.list_resources`."""
        return _loop.run(self.client.list_resources())

    def list_resource_templates(self) -> list[ResourceTemplate]:
        """See `Client.list_resource_templates`."""
        return _loop.run(self.client.list_resource_templates())

    def read_resource(self, uri: str, **options: Unpack[ReadResourceOptions]) -> ReadResourceResult:
        """See `Client.read_resource`."""
        return _loop.run(self.client.read_resource(uri, **options))

    def list_skills(self) -> list[SyncSkill]:
        """See `Client.list_skills`."""
        return [SyncSkill(skill) for skill in _loop.run(self.client.list_skills())]

    def get_skill(self, uri: str) -> SyncSkill:
        """See `Client.get_skill`."""
        return SyncSkill(_loop.run(self.client.get_skill(uri)))

    def list_prompts(self) -> list[Prompt]:
        """See `Client.list_prompts`."""
        return _loop.run(self.client.list_prompts())

    def get_prompt(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Unpack[GetPromptOptions]
    ) -> GetPromptResult:
        """See `Client.get_prompt`."""
        return _loop.run(self.client.get_prompt(name, arguments, **options))

    def complete(self, reference: Any, argument: str, value: str, **options: Unpack[CompleteOptions]) -> Completion:
        """See `Client.complete`."""
        return _loop.run(self.client.complete(reference, argument, value, **options))

    def ping(self, *, timeout_s: float | None = 10.0) -> None:
        """See `Client.ping`."""
        _loop.run(self.client.ping(timeout_s=timeout_s))

    def set_log_level(self, level: Any) -> None:
        """See `Client.set_log_level`."""
        _loop.run(self.client.set_log_level(level))

    def listen(self, **wanted: Any) -> Generator[ChangeEvent, None, None]:
        """Return an iterator over changes; see `Client.listen`. It ends when it is closed."""
        events: queue.SimpleQueue[ChangeEvent | BaseException] = queue.SimpleQueue()

        async def pump() -> None:
            try:
                async with client.listen(**wanted) as changes:
                    ready.set()
                    async for event in changes:
                        events.put(event)
            except Exception as error:
                events.put(error)
            finally:
                ready.set()
                events.put(StopIteration())

        ready = threading.Event()
        client = self.client
        future = _loop.start(pump())
        try:
            ready.wait()
            while not isinstance(event := events.get(), BaseException):
                yield event
            if not isinstance(event, StopIteration):
                raise event
        finally:
            future.cancel()
