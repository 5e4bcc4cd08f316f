"""Channels: the connections of a client to one server, with one interface for all transports.

A `ClientChannel` sends requests and notifications and reports whether it is closed. For HTTP it is
`ferrule.transports.http.client.StreamableHttp`. This module has the channels over a stream pair (a server process or
the memory pair), and the direct channel, which calls the handlers of a server in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import anyio
from msgspec import UNSET

from ferrule.client.fast_path.streams import StreamFastPath
from ferrule.kernel.concurrency.cancellation import failure_of, run_interruptible
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import (
    CallOptions,
    OnNotify,
    OnProgress,
    OnRequest,
    ProgressSender,
    TransportContext,
)
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.fast_path.fast_tools import fast_tools_of
from ferrule.kernel.outbound_request import pause_timeout_during_progress
from ferrule.kernel.runner import ServerRunner, aclose_shielded, serve_dual_era_loop
from ferrule.protocol.correlation import IdSequence
from ferrule.protocol.errors import (
    ConnectionClosed,
    LocalError,
    MCPError,
    RemoteError,
    RequestTimeout,
    error_from_exception,
)
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY
from ferrule.transports.background import Background
from ferrule.transports.watch import runs_on_trio
from ferrule.wire.codec import decode, encode
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.revisions import is_core_method

if TYPE_CHECKING:
    from ferrule.client.fast_path.direct import DirectFastPath
    from ferrule.kernel.server import Server
    from ferrule.transports.stdio.client import ServerProcess, StdioServer

__all__ = [
    "ClientChannel",
    "DirectChannel",
    "MemoryPairChannel",
    "PairChannel",
    "ServerLifespan",
    "StdioChannel",
    "StreamChannel",
    "UnixChannel",
]

logger = logging.getLogger("ferrule.client")

_DIRECT = TransportContext("direct")
SERVER_END_S: Final = 5.0
"""Maximum time, in seconds, that closing waits for the calls of a server in this process."""
_CLOSED_HERE: Final = "The connection to the server in this process is closed"
_NO_META: Mapping[str, Any] = {}


class ClientChannel(Protocol):
    """One connection to one server, as the client uses it."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> Any:
        """Send a request and return its result; see `ferrule.kernel.dispatch.Outbound`."""
        ...

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification to the server."""
        ...

    async def wait_closed(self) -> None:
        """Wait until nothing can be sent any more."""
        ...

    async def aclose(self) -> None:
        """Close the connection and what was opened for it; from any task, idempotent."""
        ...


def _never(method: str) -> bool:
    return False


def _always() -> bool:
    return True


class StreamChannel:
    """A stream pair, driven by a dispatcher in a background task."""

    def __init__(
        self,
        read_stream: Any,
        write_stream: Any,
        *,
        on_request: OnRequest,
        on_notify: OnNotify,
        background: Background,
    ) -> None:
        self._dispatcher = JSONRPCDispatcher(read_stream, write_stream, drain_s=0)
        self._dispatcher.spawns_notification = _never  # the client's own handler does not block
        self._dispatcher.accepts_batches = _always  # only servers of 2025-03-26 send batches
        self._ended = anyio.Event()
        self._is_ending = False
        self._dispatcher.on_closing = self._note_end
        self.fast_path = self._dispatcher.plain_calls = StreamFastPath(self._dispatcher, self._why_closed)
        self._background = background
        self._reader = background.start(self._run(on_request, on_notify), "ferrule-client-reader")

    async def _run(self, on_request: OnRequest, on_notify: OnNotify) -> None:
        try:
            await self._dispatcher.run(on_request, on_notify)
        finally:
            self._ended.set()

    def _note_end(self) -> None:
        self._is_ending = True

    @property
    def is_closed(self) -> bool:
        """See `ClientChannel`."""
        return self._is_ending or self._ended.is_set() or self._dispatcher.is_closed

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> Any:
        """See `ClientChannel`."""
        try:
            return await self._dispatcher.send_raw_request(method, params, opts)
        except ConnectionClosed as error:
            why = await self._why_closed(error)
            if why is error:
                raise
            raise why from error

    async def _why_closed(self, error: ConnectionClosed) -> Exception:
        return error

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """See `ClientChannel`."""
        await self._dispatcher.notify(method, params)

    async def wait_closed(self) -> None:
        """See `ClientChannel`."""
        await self._ended.wait()

    async def aclose(self) -> None:
        """Wait for the reader, which ends with its stream; return at once in a handler that the reader runs."""
        if self._background.runs_in(self._reader):
            return
        # Bounded: a stream of a user's own transport may not end.
        with anyio.move_on_after(2):
            await self._ended.wait()


class PairChannel(StreamChannel):
    """A stream pair that the program gave, or that a transport without a process made; closed with the channel."""

    def __init__(self, pair: Any, **options: Any) -> None:
        self._pair = pair
        super().__init__(pair.read_stream, pair.write_stream, **options)

    async def aclose(self) -> None:
        """Close both halves."""
        await self._pair.write_stream.aclose()
        await self._pair.read_stream.aclose()
        await super().aclose()


class UnixChannel(PairChannel):
    """A connection to a Unix socket."""

    @classmethod
    async def open(cls, path: str, **options: Any) -> UnixChannel:
        """Connect and return the channel.

        Raises:
            LocalError: nothing serves the socket, or this user may not open it.
        """
        from ferrule.transports.byte_streams import connect_unix

        try:
            return cls(await connect_unix(path), **options)
        except OSError as error:
            raise LocalError(f"The socket {path} cannot be opened: {error}") from error


class StdioChannel(StreamChannel):
    """A server process."""

    def __init__(self, process: ServerProcess, **options: Any) -> None:
        self.process = process
        super().__init__(process.read_stream, process.write_stream, **options)

    @classmethod
    async def open(cls, server: StdioServer, **options: Any) -> StdioChannel:
        """Start the process and return its channel; for errors see `connect_stdio`."""
        from ferrule.transports.stdio.client import connect_stdio

        return cls(await connect_stdio(server), **options)

    @property
    def is_closed(self) -> bool:
        """See `ClientChannel`."""
        return super().is_closed or self.process.returncode is not None or self.process.is_deaf

    async def _why_closed(self, error: ConnectionClosed) -> ConnectionClosed:
        return error if self.process.is_closing else await self.process.why_ended()

    async def aclose(self) -> None:
        """End the process and everything that it started."""
        await self.process.aclose()
        await super().aclose()


class MemoryPairChannel(StreamChannel):
    """A server in this process behind a pair of memory streams, for the legacy era; the messages are those of stdio."""

    def __init__(self, server: Server[Any], life: ServerLifespan, *, background: Background, **options: Any) -> None:
        from ferrule.transports.memory import memory_pair

        self._ours, theirs = memory_pair()
        super().__init__(self._ours.read_stream, self._ours.write_stream, background=background, **options)
        self._served = anyio.Event()
        self._server = background.start(
            self._serve(
                serve_dual_era_loop(server, theirs.read_stream, theirs.write_stream, lifespan_state=life.state)
            ),
            "ferrule-memory-server",
        )

    async def _serve(self, serving: Coroutine[Any, Any, None]) -> None:
        try:
            await serving
        finally:
            serving.close()
            self._served.set()

    async def aclose(self) -> None:
        """Close the streams and end the server: its calls must end before its lifespan, which ends next."""
        try:
            await self._ours.aclose()
            await super().aclose()
        finally:
            self._server.cancel()
            # A handler of the server may close the client: a task cannot wait for its own end.
            if not self._background.runs_in(self._server):
                with anyio.move_on_after(SERVER_END_S):
                    await self._served.wait()


class ServerLifespan:
    """The lifespan of a server in this process, entered and left by one background task.

    In one task, because user code may open task groups in it, which must be closed by the task that opened them.
    """

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._ready = anyio.Event()
        self._stop = anyio.Event()
        self._stopped = anyio.Event()
        self._error: BaseException | None = None
        self.state: Any = None

    async def start(self, background: Background) -> None:
        """Enter the lifespan.

        Raises:
            Exception: any exception of entering it.
        """
        background.start(self._run(), "ferrule-lifespan")
        await self._ready.wait()
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        try:
            async with self._server.lifespan() as self.state:
                self._ready.set()
                await self._stop.wait()
        except Exception as error:
            if self._ready.is_set():
                logger.exception("The lifespan of the server failed")
            self._error = error
        finally:
            self._ready.set()
            self._stopped.set()

    async def aclose(self) -> None:
        """Leave the lifespan, and wait for its end for 5 seconds at most."""
        self._stop.set()
        with anyio.move_on_after(5):
            await self._stopped.wait()


class _Call(ProgressSender):
    """The dispatch context of one direct call."""

    __slots__ = (
        "_channel",
        "can_send_request",
        "cancel_requested",
        "cap_at",
        "is_cut",
        "on_progress",
        "request_id",
        "scope",
        "transport",
    )

    def __init__(self, channel: DirectChannel, request_id: RequestId, on_progress: OnProgress | None) -> None:
        super().__init__(None if on_progress is None else {"_meta": {"progressToken": request_id}})
        self._channel = channel
        self.scope: anyio.CancelScope | None = None  # ends the call in time
        self.cap_at = float("inf")  # when it ends in any case
        self.transport = channel.facts
        self.can_send_request = False
        self.cancel_requested = False
        self.is_cut = False
        self.request_id = request_id
        self.on_progress = on_progress

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise LocalError("A server sends no requests in this era")  # `Connection` refuses it before

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        if self.cancel_requested:
            return
        raw: dict[str, Any] | None = None if params is None else _as_sent(params)
        if method == "notifications/progress" and self.on_progress is not None and raw is not None:
            waiting = self.on_progress(raw["progress"], raw.get("total"), raw.get("message"))
            if waiting is not None:
                await waiting
            return
        await self._channel.take_notification(self, method, raw)


class DirectChannel:
    """A server in this process in the modern era: the task of the caller runs the handler, without queues.

    Each side receives what it would receive over a network: everything is encoded and decoded once.

    Args:
        server: the server.
        life: its lifespan.
        on_notify: handles its notifications.
        origin: see `ferrule.client.config.InProcessTarget`; it returns ``None`` for the owner of this process.

    Attributes:
        fast_path: serves plain calls; ``None`` if the server has no fast path.
    """

    def __init__(
        self,
        server: Server[Any],
        life: ServerLifespan,
        *,
        on_notify: OnNotify,
        origin: Callable[[], TransportContext | None] | None = None,
    ) -> None:
        self._origin = origin
        self._server = server
        self._life = life
        self._on_notify = on_notify
        self._ids = IdSequence()
        self._calls: dict[_Call, Any] = {}
        self._is_trio = runs_on_trio()
        self._is_closed = False
        self._call_ended: anyio.Event | None = None
        self.fast_path: DirectFastPath | None = None
        tools = fast_tools_of(server)
        if tools is not None:
            from ferrule.client.fast_path.direct import DirectFastPath

            self.fast_path = DirectFastPath(self, tools, server)

    @property
    def is_closed(self) -> bool:
        """See `ClientChannel`."""
        return self._is_closed

    @property
    def facts(self) -> TransportContext:
        """The facts of a request that is sent now."""
        return _DIRECT if self._origin is None else self._origin() or _DIRECT

    def next_id(self) -> int:
        """Return the id of the next request."""
        return self._ids.next()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> Any:
        """See `ClientChannel`."""
        if self._is_closed:
            raise ConnectionClosed(_CLOSED_HERE)
        id = self._ids.next()
        raw: dict[str, Any] = {} if params is None else _as_sent(params)
        if not opts:
            call = _Call(self, id, None)
            return await self._serve(call, method, self._handle(call, method, raw))
        if "on_id" in opts:
            opts["on_id"](id)
        if opts.get("on_progress") is not None:
            raw["_meta"] = {**raw.get("_meta", _NO_META), "progressToken": id}
        call = self.open_call(id, opts)
        return await self.serve_within(call, opts, method, self._handle(call, method, raw))

    # -- the steps of a call; also for `ferrule.client.fast_path.direct` ----------------------------------------------

    def open_call(self, id: RequestId, opts: CallOptions, elapsed_s: float = 0.0) -> _Call:
        """Return the dispatch context of a call, for `serve_within`.

        Args:
            id: the id of the request.
            opts: its time-outs, and what takes its progress.
            elapsed_s: seconds that have gone by since it was sent.
        """
        timeout_s, cap_s, given = opts.get("timeout_s"), opts.get("max_total_s"), opts.get("on_progress")
        if timeout_s is None and cap_s is None:
            return _Call(self, id, given)
        sent_at, resets = anyio.current_time() - elapsed_s, opts.get("reset_on_progress", False)
        wait_s = float("inf") if timeout_s is None else timeout_s
        cap_at = float("inf") if cap_s is None else sent_at + cap_s
        scope = anyio.CancelScope(deadline=min(cap_at, sent_at + wait_s))
        on_progress = pause_timeout_during_progress(scope, wait_s, cap_at, resets, given)
        call = _Call(self, id, on_progress if given is not None or resets else None)
        call.scope, call.cap_at = scope, cap_at
        return call

    async def serve_within(self, call: _Call, opts: CallOptions, method: str, work: Coroutine[Any, Any, Any]) -> Any:
        """Await the work of a call within its time.

        Raises:
            RemoteError: what the peer would have received.
            RequestTimeout, ConnectionClosed: see `ferrule.kernel.dispatch.Outbound`.
        """
        scope = call.scope
        if scope is None:
            return await self._serve(call, method, work)
        with scope:
            return await self._serve(call, method, work)
        timeout_s, cap_s = opts.get("timeout_s"), opts.get("max_total_s")
        # Progress moves the one and not the other, so that the earlier one at the end is the one that is over.
        is_cap = cap_s is not None and scope.deadline == call.cap_at
        raise RequestTimeout(method, cast("float", cap_s if is_cap else timeout_s), is_cap=is_cap)

    def connection_of(self, call: _Call, meta: Mapping[str, Any]) -> Connection:
        """Return the connection of a call: each has its own, as over HTTP."""
        return Connection.from_envelope(
            cast("str", meta.get(PROTOCOL_VERSION_KEY)),
            meta.get(CLIENT_INFO_KEY),
            meta.get(CLIENT_CAPABILITIES_KEY) or {},
            outbound=call,
        )

    def runner_of(self, connection: Connection) -> ServerRunner[Any]:
        """Return what serves the requests of a connection."""
        return ServerRunner(self._server, connection, self._life.state)

    async def ended(self, call: _Call, connection: Connection) -> None:
        """Note the end of the handler of a call, and close its connection."""
        call.cancel_requested = True
        if connection.opened_exit_stack is not None:
            await aclose_shielded(connection)

    async def _handle(self, call: _Call, method: str, params: dict[str, Any]) -> Any:
        connection = self.connection_of(call, params.get("_meta", _NO_META))
        try:
            return _as_sent(await self.runner_of(connection).handle_request(call, method, params))
        finally:
            await self.ended(call, connection)

    async def _serve(self, call: _Call, method: str, work: Coroutine[Any, Any, Any]) -> Any:
        if self._is_trio:
            return await self._serve_on_trio(call, method, work)
        self._calls[call] = task = _current_task()
        try:
            result = await self._answered(call, method, work)
        except BaseException as error:
            if not call.is_cut:
                raise
            task.uncancel()
            call.foreign_cancels -= 1
            if call.foreign_cancels > 0 and not isinstance(error, Exception):  # the caller is cancelled as well
                raise
            raise ConnectionClosed(_CLOSED_HERE) from None
        finally:
            self._note_end(call)
        if call.is_cut:
            task.uncancel()
        return result

    async def _serve_on_trio(self, call: _Call, method: str, work: Coroutine[Any, Any, Any]) -> Any:
        with anyio.CancelScope() as scope:
            self._calls[call] = scope
            try:
                return await self._answered(call, method, work)
            finally:
                self._note_end(call)
        raise ConnectionClosed(_CLOSED_HERE)

    def _note_end(self, call: _Call) -> None:
        del self._calls[call]
        if self._call_ended is not None:
            self._call_ended.set()
            self._call_ended = None

    async def _answered(self, call: _Call, method: str, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await run_interruptible(work, call)
        except LocalError as error:
            logger.error("%s failed", method, exc_info=error)
            raise RemoteError.from_error(error_from_exception(error)) from error
        except MCPError as error:
            data = UNSET if error.data is UNSET else _as_sent(error.data)
            raise RemoteError(error.message, code=error.code, data=data) from error
        except Exception as error:
            logger.error("%s failed", method, exc_info=error)
            raise RemoteError.from_error(error_from_exception(error)) from error
        finally:
            call.cancel_requested = True
            call.interruption = None

    async def take_notification(self, call: _Call, method: str, params: Mapping[str, Any] | None) -> None:
        """Pass a notification of the server to the client; an error of its handler fails no call."""
        try:
            await self._on_notify(cast("Any", call), method, params)
        except BaseException as error:
            logger.error("The handling of %s failed", method, exc_info=failure_of(error, call))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Call the server's handler of a notification that an extension defines; its error is logged.

        Those of the core are not sent: to cancel a call of a server in this process, cancel its task.
        """
        server = self._server
        if self._is_closed or is_core_method(method) or server.get_notification_handler(method) is None:
            return
        call = _Call(self, self._ids.next(), None)
        connection = Connection.from_envelope(server.modern_versions[-1], None, {}, outbound=call)
        raw: dict[str, Any] = {} if params is None else _as_sent(params)
        try:
            await run_interruptible(self.runner_of(connection).on_notify(call, method, raw), call)
        except Exception as error:
            logger.error("The handling of %s failed", method, exc_info=error)
        finally:
            await self.ended(call, connection)

    async def wait_closed(self) -> None:
        """See `ClientChannel`."""
        await anyio.sleep_forever()

    async def aclose(self) -> None:
        """Cancel the calls in flight and wait for their clean-up, before the lifespan ends."""
        self._is_closed = True
        own = None if self._is_trio else _current_task()
        waiting = [call for call, task in self._calls.items() if task is not own]
        for call in waiting:
            call.is_cut = True
            self._calls[call].cancel()
        with anyio.move_on_after(SERVER_END_S):
            while any(call in self._calls for call in waiting):
                if self._call_ended is None:
                    self._call_ended = anyio.Event()
                await self._call_ended.wait()


def _as_sent(value: Any) -> Any:
    """Return a value as a peer in another process would receive it."""
    return decode(encode(value))


def _current_task() -> Any:
    import asyncio

    return asyncio.current_task()
