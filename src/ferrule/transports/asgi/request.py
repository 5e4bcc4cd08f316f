"""An HTTP request with its responses, and a watch for the client's disconnect."""

from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from typing import Any

from msgspec import Struct

from ferrule.transports.asgi.context import HttpContext
from ferrule.transports.asgi.replies import RawHeaders, Receive, Send, send_body, send_empty
from ferrule.transports.asgi.runtime import Cancellable, Runtime
from ferrule.wire.jsonrpc import JsonRpcError, RequestId, encode_error

__all__ = ["BEGINS_IN_THREAD_KEY", "SILENT_END_KEY", "DisconnectWatch", "IncomingRequest"]

SILENT_END_KEY = "ferrule.silent_end"
"""Key of a scope, with any value: ``receive`` never tells that the client has disconnected, so that nothing waits for
it."""


BEGINS_IN_THREAD_KEY = "ferrule.begins_in_thread"
"""Key of a scope whose request begins in the thread of its host, without an event loop: a function that returns whether
a decoded message may be served there; see `ferrule.kernel.concurrency.yielding`."""


class IncomingRequest(Struct, eq=False):
    """An HTTP request and the methods that respond to it.

    Attributes:
        scope, receive, send: as the ASGI server gave them.
        headers: lower-case name to value (Latin-1).
        reply_headers: headers of every response (CORS); ``None`` for none.
        principal: the result of the ``authenticate`` hook; ``None`` before it, and without one.
        authority: host and port that were judged; ``None`` before.
    """

    scope: Mapping[str, Any]
    receive: Receive
    send: Send
    headers: dict[str, str]
    reply_headers: RawHeaders | None = None
    principal: Any = None
    authority: str | None = None

    def context(
        self, session_id: str | None = None, *, can_send_request: bool = False, kind: str = "http"
    ) -> HttpContext:
        """Return the facts of this request for handlers and hooks."""
        client = self.scope.get("client")
        return HttpContext(
            kind,
            can_send_request,
            principal=self.principal,
            headers=self.headers,
            client=None if client is None else (client[0], client[1]),
            scope=self.scope,
            session_id=session_id,
            authority=self.authority,
        )

    async def reply(self, status: int, body: bytes, headers: RawHeaders | None = None) -> None:
        """Respond with a JSON body."""
        await send_body(self.send, status, body, [*(headers or ()), *(self.reply_headers or ())])

    async def reply_empty(self, status: int, headers: RawHeaders | None = None) -> None:
        """Respond without a body."""
        await send_empty(self.send, status, [*(headers or ()), *(self.reply_headers or ())])

    async def refuse(
        self,
        status: int,
        code: int,
        message: str,
        *,
        id: RequestId | None = None,
        data: Any = None,
        headers: RawHeaders | None = None,
    ) -> None:
        """Respond with a JSON-RPC error; ``id`` is that of the refused request if it could be read."""
        error = JsonRpcError(code, message) if data is None else JsonRpcError(code, message, data)
        await self.reply(status, encode_error(id, error), headers)


class DisconnectWatch:
    """Watches for the disconnect of one request's client.

    Args:
        runtime: starts the timer and the watching task.
        receive: the ASGI callable of the request.
        grace_s: seconds between `arm` and the start of the watch, so that a short request costs no task.
        on_gone: called once when the client disconnects.
    """

    __slots__ = ("_context", "_grace_s", "_on_gone", "_receive", "_runtime", "_watcher")

    def __init__(self, runtime: Runtime, receive: Receive, grace_s: float, on_gone: Callable[[], object]) -> None:
        self._runtime = runtime
        self._receive = receive
        self._grace_s = grace_s
        self._on_gone = on_gone
        self._watcher: Cancellable | None = None
        self._context: Context | None = None

    def arm(self) -> None:
        """Start watching after the grace time; called when the handler first waits."""
        self._context = copy_context()
        # A cancelled timer stays in the heap of its loop, with its context: in that of the call it would keep all of
        # the request for the grace time.
        self._watcher = Context().run(self._runtime.call_later, self._grace_s, self._start)

    def _start(self) -> None:
        if self._context is not None:
            self._context.run(self.start)

    def stop(self) -> None:
        """Stop watching; called when the response was sent."""
        self._on_gone = _nothing  # the callback references the exchange, which references this watch: a cycle
        self._context = None
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def start(self) -> None:
        """Start watching now."""
        self._watcher = self._runtime.spawn(self._watch)

    async def _watch(self) -> None:
        while True:
            # After the body ASGI servers send nothing but the disconnect; a pipelined request stays with the server.
            message = await self._receive()
            if message["type"] == "http.disconnect":
                break
        if self._watcher is not None:
            self._watcher = None
            # Cleared before the call: the callback may stop this watch.
            on_gone, self._on_gone = self._on_gone, _nothing
            on_gone()


def _nothing() -> None:
    """Do nothing; replaces the callback of a watch that has ended."""
