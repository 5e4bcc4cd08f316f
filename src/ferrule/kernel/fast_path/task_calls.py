"""The fast path of plain calls that already have a task: that of an HTTP request, or of a caller in this process.

On a stream pair each call needs a task (`ferrule.kernel.fast_path.stream_calls`). Here the first step of the function
runs in the existing task.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

from msgspec import Raw

from ferrule.kernel.concurrency.first_step import StartedCoroutine
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.fast_path.fast_tools import OWNER, CallSender, FastCall, FastTools, entry_of_plain_calls
from ferrule.kernel.fast_path.middleware import rest_of
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.wire.codec import decode
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.nesting import MAX_DEPTH, may_be_too_deep
from ferrule.wire.plain_calls import PLAIN_METHOD

__all__ = ["TaskFastCalls"]


class TaskFastCalls:
    """Decides whether a call is plain, and finishes calls on the general path that are not answered by a plain value.

    Args:
        tools: the tools that the fast path may call.
        server: the server of the tools.
    """

    def __init__(self, tools: FastTools, server: Server[Any]) -> None:
        self._tools = tools
        self._server = server
        self._handlers = server.request_handlers

    def plain_call(
        self,
        id: RequestId,
        name: str,
        arguments: bytes | Raw,
        frame: bytes,
        sender: CallSender,
        loop: Any,
        principal: Any = OWNER,
    ) -> FastCall | None:
        """Return a call to be served; ``None`` if it is not plain.

        Args:
            id: the id of the request.
            name, arguments: the tool's name and its encoded arguments.
            frame: the bytes of the message, whose nesting depth is checked.
            sender: the sender of the call.
            loop: the running event loop.
            principal: the principal of the request, as for `FastTools.find_fast`.

        Raises:
            Exception: of any class: the arguments are not plain, and the general path must serve the call.
        """
        tools = self._tools
        if entry_of_plain_calls(self._server, self._handlers, tools) is None:
            return None
        tool = tools.find_fast(name, principal)
        if tool is None or (len(frame) > MAX_DEPTH and may_be_too_deep(frame)):
            return None
        typed = tool.decode(arguments)
        version = sender.revision.version
        if version not in tool.writers:
            tool.writers[version] = tool.make_writer(sender.revision, partial(self.finish, sender))
        call = FastCall(id, tool, typed, frame, sender, self, loop)
        if tool.admits is not None and not tool.admits(call):
            return None
        tools.fast_calls += 1
        return call

    def rest(self, call: FastCall, begun: StartedCoroutine) -> Awaitable[Any]:
        """Return an awaitable that finishes a call on the general path; ``begun`` is the function's coroutine."""
        return rest_of(call, begun, self._handlers[PLAIN_METHOD])

    def finish(self, sender: Any, result: Any) -> Any:
        """Return a result in the form of the sender's revision."""
        raise NotImplementedError

    # -- `ferrule.kernel.fast_path.fast_tools.CallCarrier` ------------------------------------------------------------

    @property
    def server(self) -> Server[Any]:
        """The server that serves the calls."""
        return self._server

    def make_request(self, call: FastCall) -> ServerRequestContext[Any]:
        """Return the request context of a call, as the handler of the general path gets it."""
        raise NotImplementedError

    def params_of(self, call: FastCall) -> dict[str, Any]:
        """Return the raw params of a call."""
        return decode(call.frame)["params"]  # type: ignore[no-any-return]

    def transport_of(self, call: FastCall) -> TransportContext:
        """Return the facts of the transport that received a call."""
        raise NotImplementedError

    def session_id_of(self, call: FastCall) -> str | None:
        """Return the id of the legacy session of a call; ``None`` elsewhere."""
        return None

    def client_of(self, call: FastCall) -> Connection:
        """Return the connection of the client; see `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        raise NotImplementedError
