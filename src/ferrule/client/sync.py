"""`SyncClient`: the same client without ``await``, for scripts and notebooks.

One event loop in one daemon thread serves every synchronous client of the process. A call blocks the thread that
makes it and no other; Ctrl-C cancels the call, which tells the server. Handlers and callbacks run in that thread, so
they must not use the same client synchronously: that is refused instead of waiting for ever.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import queue
import threading
from collections.abc import Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from ferrule.client.calls import ClientCalls
from ferrule.client.client import Client
from ferrule.protocol.errors import LocalError

if TYPE_CHECKING:
    from ferrule.client.options import (
        ClientOptions,
        CompleteOptions,
        GetPromptOptions,
        ReadResourceOptions,
        ToolCallOptions,
    )
    from ferrule.client.results import ToolCallResult
    from ferrule.client.subscriptions import ChangeEvent
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

__all__ = ["SyncClient"]

T = TypeVar("T")


class _Loop:
    """The event loop in its thread; started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result.

        Raises:
            LocalError: called from the loop's own thread.
            Whatever it raises.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise LocalError("A handler must not call its client synchronously; make it async and await a Client")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name="ferrule-sync", daemon=True
                )
                self._thread.start()
                atexit.register(self._stop)
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def _stop(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(_close_all(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(5)
            if not thread.is_alive():
                loop.close()


_loop = _Loop()
_open: set[Any] = set()


async def _close_all() -> None:
    for client in list(_open):
        await client.aclose()


class SyncClient:
    """A client whose methods return instead of being awaited; arguments as for `Client`, targets too.

    ``with SyncClient(target) as client:``, or `connect` and `close`. What is still open when the process exits is
    closed then.
    """

    def __init__(self, target: Any, **options: Unpack[ClientOptions]) -> None:
        self.client: ClientCalls = Client(target, **options)

    def __enter__(self) -> SyncClient:
        return self.connect()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def connect(self) -> SyncClient:
        """See `Client.connect`."""
        _loop.run(self.client.connect())
        _open.add(self.client)
        return self

    def close(self) -> None:
        """See `Client.aclose`."""
        _open.discard(self.client)
        _loop.run(self.client.aclose())

    @property
    def protocol_version(self) -> str:
        """The revision in use."""
        return self.client.protocol_version

    @property
    def server_info(self) -> Implementation | None:
        """Who the server says it is."""
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

    def list_resources(self) -> list[Resource]:
        """See `Client.list_resources`."""
        return _loop.run(self.client.list_resources())

    def list_resource_templates(self) -> list[ResourceTemplate]:
        """See `Client.list_resource_templates`."""
        return _loop.run(self.client.list_resource_templates())

    def read_resource(self, uri: str, **options: Unpack[ReadResourceOptions]) -> ReadResourceResult:
        """See `Client.read_resource`."""
        return _loop.run(self.client.read_resource(uri, **options))

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
        """Changes as they come; see `Client.listen`. Ends when the iterator is closed."""
        events: queue.SimpleQueue[ChangeEvent | BaseException] = queue.SimpleQueue()

        async def pump() -> None:
            try:
                async with self.client.listen(**wanted) as changes:
                    ready.set()
                    async for event in changes:
                        events.put(event)
            except Exception as error:
                events.put(error)
            finally:
                ready.set()
                events.put(StopIteration())

        ready = threading.Event()
        future = asyncio.run_coroutine_threadsafe(pump(), _loop._running())  # pyright: ignore[reportPrivateUsage]
        ready.wait()
        try:
            while not isinstance(event := events.get(), BaseException):
                yield event
            if not isinstance(event, StopIteration):
                raise event
        finally:
            future.cancel()
