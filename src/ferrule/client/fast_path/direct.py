"""The fast path to a server in this process, in the modern era: the caller's task runs the tool's function.

Arguments and results go through their JSON, as over a network: encoded by one side and decoded to their types by the
other. What is unusual goes on in the channel (`ferrule.client.connection.channels.DirectChannel`). On asyncio only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ferrule.client.fast_path.outcome import FirstOutcome
from ferrule.client.fast_path.prepared import PreparedCall
from ferrule.kernel.concurrency.first_step import StartedCoroutine
from ferrule.kernel.connection import Connection
from ferrule.kernel.fast_path.fast_tools import OWNER, FastCall, FastTools, plain_route
from ferrule.kernel.fast_path.task_calls import TaskFastCalls
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.wire.codec import decode, encode, plain_encode
from ferrule.wire.jsonrpc import encode_response
from ferrule.wire.plain_answers import decode_plain_answer, plain_result
from ferrule.wire.plain_calls import ANSWER_HEAD, NO_ARGUMENTS, PLAIN_METHOD
from ferrule.wire.revisions import REVISIONS, Revision
from ferrule.wire.types import ToolResult

if TYPE_CHECKING:
    from ferrule.kernel.dispatch import CallOptions, TransportContext
    from ferrule.kernel.runner import ServerRunner
    from ferrule.wire.jsonrpc import RequestId

__all__ = ["DirectFastPath", "ServesCalls"]


class ServesCalls(Protocol):
    """The channel, as the fast path uses it; see `ferrule.client.connection.channels.DirectChannel`."""

    @property
    def is_closed(self) -> bool: ...
    @property
    def facts(self) -> TransportContext: ...
    def next_id(self) -> int: ...
    def open_call(self, id: RequestId, opts: CallOptions, elapsed_s: float = ...) -> Any: ...
    async def serve_within(self, call: Any, opts: CallOptions, method: str, work: Any) -> Any: ...
    def connection_of(self, call: Any, meta: Mapping[str, Any]) -> Connection: ...
    def runner_of(self, connection: Connection) -> ServerRunner[Any]: ...
    async def ended(self, call: Any, connection: Connection) -> None: ...


class _DirectCallSender(Struct):
    """The caller of a plain call: what it has asked for, and since when (`time.monotonic`) it waits."""

    revision: Revision
    prepared: PreparedCall
    options: CallOptions
    started: float
    connection: Connection | None = None


class DirectFastPath(TaskFastCalls):
    """Serves plain calls in the task of their caller.

    Args:
        channel: the general path.
        tools: the tools of the server.
        server: the server.
    """

    def __init__(self, channel: ServesCalls, tools: FastTools, server: Server[Any]) -> None:
        super().__init__(tools, server)
        self._channel = channel
        self._meta: Mapping[str, Any] | None = None
        self._revision: Revision | None = None

    @property
    def is_open(self) -> bool:
        """Whether a call can be served now."""
        return not self._channel.is_closed

    def call(
        self,
        prepared: PreparedCall,
        arguments: bytes,
        headers: Mapping[str, str] | None,
        timeout_s: float | None,
        wait_s: float | None,
    ) -> Awaitable[ToolResult | FirstOutcome] | None:
        """See `ferrule.client.fast_calls.PlainCallSender`."""
        started = time.monotonic()
        revision = self._revision if prepared.meta is self._meta else self._learn(prepared.meta)
        if revision is None:
            return None
        options: CallOptions = {}
        if timeout_s is not None:
            options["timeout_s"] = timeout_s
            options["reset_on_progress"] = wait_s is not None
        sender = _DirectCallSender(revision, prepared, options, started)
        facts = self._channel.facts
        principal = facts.principal if facts.is_network else OWNER
        given, loop = arguments or NO_ARGUMENTS, asyncio.get_running_loop()
        try:
            call = self.plain_call(0, prepared.name, given, arguments, sender, loop, principal)
        except Exception:  # not ours
            return None
        if call is None:
            return None
        call.id = self._channel.next_id()
        return self._serve(call)

    def _learn(self, meta: Mapping[str, Any]) -> Revision | None:
        """Judge the envelope of a session."""
        route = plain_route(self._server, {"_meta": meta})
        self._meta = meta
        self._revision = None if route is None else REVISIONS[route.protocol_version]
        return self._revision

    def finish(self, sender: _DirectCallSender, result: Any) -> Any:
        """See `TaskFastCalls.finish`."""
        connection = Connection.from_envelope(sender.revision.version, None, {})
        return finish_result(self._server, connection, PLAIN_METHOD, result)

    async def _serve(self, call: FastCall) -> ToolResult | FirstOutcome:
        tool = call.tool
        coroutine: Any = None
        try:
            try:
                coroutine = tool.start(call)
                pending = coroutine.send(None)
            except StopIteration as stop:
                value = stop.value
                if (got := self._plain_outcome(call, value)) is not None:
                    return got
                begun = StartedCoroutine.returned(value)
            except BaseException as error:
                begun = StartedCoroutine.raised(error)
            else:
                begun = StartedCoroutine(coroutine, pending)
            return await self._go_on(call, begun)
        finally:
            tool.leave(call)

    def _plain_outcome(self, call: FastCall, value: Any) -> ToolResult | FirstOutcome | None:
        """Return what the caller gets if the function has returned a plain value; ``None`` if it has not."""
        if call.request is not None or (pieces := call.tool.writers[call.sender.revision.version](value)) is None:
            return None
        if call.passage is not None and not call.passage.leave(call):
            return None
        call.is_over = True
        return self._received(call, b"".join((ANSWER_HEAD, plain_encode(call.id), *pieces)))

    def _received(self, call: FastCall, answer: bytes) -> ToolResult | FirstOutcome:
        """Read an answer as a client in another process would."""
        try:
            result = plain_result(decode_plain_answer(answer), answer)
        except Exception:  # not a plain one
            result = None
        return FirstOutcome(call.sender.started, decode(answer)["result"]) if result is None else result

    async def _go_on(self, call: FastCall, begun: StartedCoroutine) -> ToolResult | FirstOutcome:
        """Let the channel await the rest of a call as it awaits every request."""
        options = call.sender.options
        call.task = asyncio.current_task()  # code in a worker thread may be the first to read the request
        dispatch = self._dispatch_of(call)
        try:
            got: ToolResult | FirstOutcome = await self._channel.serve_within(
                dispatch, options, PLAIN_METHOD, self._awaited(call, begun)
            )
        except Exception as error:
            return FirstOutcome(call.sender.started, error=error)
        finally:
            call.is_over = True
        return got

    async def _awaited(self, call: FastCall, begun: StartedCoroutine) -> ToolResult | FirstOutcome:
        """Await a function; its plain value is given like one that came at once."""
        try:
            value = await begun
        except BaseException as error:
            begun = StartedCoroutine.raised(error)
        else:
            if (got := self._plain_outcome(call, value)) is not None:
                return got
            begun = StartedCoroutine.returned(value)
        work = self.rest(call, begun)
        try:
            return self._received(call, encode_response(call.id, await work))
        finally:
            await self._channel.ended(call.dispatch, call.sender.connection)

    def _dispatch_of(self, call: FastCall) -> Any:
        if call.dispatch is None:
            elapsed_s = time.monotonic() - call.sender.started
            call.dispatch = self._channel.open_call(call.id, call.sender.options, elapsed_s)
        return call.dispatch

    def params_of(self, call: FastCall) -> dict[str, Any]:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        prepared: PreparedCall = call.sender.prepared
        params: dict[str, Any] = {"name": prepared.name}
        if call.frame:
            params["arguments"] = decode(call.frame)
        params["_meta"] = decode(encode(prepared.meta))
        return params

    def transport_of(self, call: FastCall) -> TransportContext:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        return self._channel.facts

    def make_request(self, call: FastCall) -> ServerRequestContext[Any]:
        """See `ferrule.kernel.fast_path.fast_tools.CallCarrier`."""
        sender: _DirectCallSender = call.sender
        params = self.params_of(call)
        dispatch = self._dispatch_of(call)
        if call.is_over:
            dispatch.cancel_requested = True
        sender.connection = connection = self._channel.connection_of(dispatch, params["_meta"])
        return self._channel.runner_of(connection).typed_context(dispatch, PLAIN_METHOD, params)
