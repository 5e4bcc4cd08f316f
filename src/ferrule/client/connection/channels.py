"""Channels: how a client reaches one server, whatever carries the messages.

A `ClientChannel` sends requests and notifications and says whether it still works. HTTP's is
`ferrule.transports.http.client.StreamableHttp` itself; here are the channels over a stream pair (a server process,
or the memory pair) and the direct one, where a call to a server in this process is a call.
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
from ferrule.kernel.questions import pause_timeout_during_progress
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
from ferrule.wire.codec import to_builtins
from ferrule.wire.jsonrpc import RequestId

if TYPE_CHECKING:
    from ferrule.kernel.server import Server
    from ferrule.transports.sse.client import SseConnection
    from ferrule.transports.stdio.client import ServerProcess, StdioServer

__all__ = [
    "ClientChannel",
    "DirectChannel",
    "MemoryPairChannel",
    "PairChannel",
    "ServerLifespan",
    "SseChannel",
    "StdioChannel",
    "StreamChannel",
]

logger = logging.getLogger("ferrule.client")

_DIRECT = TransportContext("direct")
SERVER_END_S: Final = 5.0
"""Seconds that the calls of a server in this process may take to end after their client has closed."""
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
        self._dispatcher.spawns_notification = _never  # the client's own handler returns at once
        self._dispatcher.accepts_batches = _always  # of 2025-03-26; no other revision's server sends any
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
    """A stream pair that was given, or made by a transport without a process; closed with the channel."""

    def __init__(self, pair: Any, **options: Any) -> None:
        self._pair = pair
        super().__init__(pair.read_stream, pair.write_stream, **options)

    async def aclose(self) -> None:
        """Close both halves."""
        await self._pair.write_stream.aclose()
        await self._pair.read_stream.aclose()
        await super().aclose()


class SseChannel(PairChannel):
    """The event stream and the POST endpoint of the transport of 2024-11-05."""

    def __init__(self, connection: SseConnection, **options: Any) -> None:
        self._connection = connection
        super().__init__(connection, **options)

    @property
    def is_closed(self) -> bool:
        """See `ClientChannel`."""
        return super().is_closed or self._connection.ended is not None

    async def _why_closed(self, error: ConnectionClosed) -> Exception:
        ended = self._connection.ended
        return ended if isinstance(ended, LocalError) else error


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
    """A server in this process behind a pair of streams, for the legacy era, with the same messages as elsewhere."""

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

    __slots__ = ("_channel", "can_send_request", "cancel_requested", "is_cut", "on_progress", "request_id", "transport")

    def __init__(self, channel: DirectChannel, request_id: RequestId, on_progress: OnProgress | None) -> None:
        self._channel = channel
        self._gate = None
        self.interruption = None
        self.foreign_cancels = 0
        self.left_over = 0
        self.transport: TransportContext = _DIRECT if channel.origin is None else channel.origin() or _DIRECT
        self.can_send_request = False
        self.cancel_requested = False
        self.is_cut = False
        self.request_id = request_id
        self.on_progress = on_progress
        self.progress_params = None if on_progress is None else {"_meta": {"progressToken": request_id}}

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise LocalError("A server sends no requests in this era")  # the connection refuses before this

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        if self.cancel_requested:
            return
        raw: dict[str, Any] | None = None if params is None else to_builtins(params)
        if method == "notifications/progress" and self.on_progress is not None and raw is not None:
            waiting = self.on_progress(raw["progress"], raw.get("total"), raw.get("message"))
            if waiting is not None:
                await waiting
            return
        await self._channel.take_notification(self, method, raw)


class DirectChannel:
    """A server in this process in the modern era: the task of the caller runs the handler, without bytes or queues.

    Each side receives builtins, as if they had been sent over a network.

    Args:
        server: the server.
        life: its lifespan.
        on_notify: handles its notifications.
        origin: see `ferrule.client.config.InProcessTarget`; it returns ``None`` for the owner of this process.
    """

    def __init__(
        self,
        server: Server[Any],
        life: ServerLifespan,
        *,
        on_notify: OnNotify,
        origin: Callable[[], TransportContext | None] | None = None,
    ) -> None:
        self.origin = origin
        self._server = server
        self._life = life
        self._on_notify = on_notify
        self._ids = IdSequence()
        self._calls: dict[_Call, Any] = {}
        self._is_trio = runs_on_trio()
        self._is_closed = False
        self._call_ended: anyio.Event | None = None

    @property
    def is_closed(self) -> bool:
        """See `ClientChannel`."""
        return self._is_closed

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> Any:
        """See `ClientChannel`."""
        if self._is_closed:
            raise ConnectionClosed(_CLOSED_HERE)
        id = self._ids.next()
        raw: dict[str, Any] = {} if params is None else to_builtins(params)
        if not opts:
            return await self._call(_Call(self, id, None), method, raw)
        on_progress = opts.get("on_progress")
        timeout_s, cap_s = opts.get("timeout_s"), opts.get("max_total_s")
        if on_progress is not None:
            raw["_meta"] = {**raw.get("_meta", _NO_META), "progressToken": id}
        if timeout_s is None and cap_s is None:
            return await self._call(_Call(self, id, on_progress), method, raw)
        return await self._call_within(id, method, raw, opts)

    async def _call_within(self, id: int, method: str, raw: dict[str, Any], opts: CallOptions) -> Any:
        given_s, cap_s = opts.get("timeout_s"), opts.get("max_total_s")
        timeout_s = float("inf") if given_s is None else given_s
        cap_at = float("inf") if cap_s is None else anyio.current_time() + cap_s
        given, resets = opts.get("on_progress"), opts.get("reset_on_progress", False)
        with anyio.CancelScope(deadline=min(cap_at, anyio.current_time() + timeout_s)) as scope:
            on_progress = pause_timeout_during_progress(scope, timeout_s, cap_at, resets, given)
            call = _Call(self, id, on_progress if given is not None or resets else None)
            return await self._call(call, method, raw)
        is_cap = cap_s is not None and scope.deadline == cap_at
        raise RequestTimeout(method, cast("float", cap_s) if is_cap else timeout_s, is_cap=is_cap)

    async def _call(self, call: _Call, method: str, params: dict[str, Any]) -> Any:
        meta = params.get("_meta", _NO_META)
        connection = Connection.from_envelope(
            meta.get(PROTOCOL_VERSION_KEY),
            meta.get(CLIENT_INFO_KEY),
            meta.get(CLIENT_CAPABILITIES_KEY) or {},
            outbound=call,
        )
        runner = ServerRunner(self._server, connection, self._life.state)
        if self._is_trio:
            return await self._call_on_trio(runner, connection, call, method, params)
        self._calls[call] = task = _current_task()
        try:
            result = await self._serve(runner, connection, call, method, params)
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

    async def _call_on_trio(
        self, runner: ServerRunner[Any], connection: Connection, call: _Call, method: str, params: dict[str, Any]
    ) -> Any:
        with anyio.CancelScope() as scope:
            self._calls[call] = scope
            try:
                return await self._serve(runner, connection, call, method, params)
            finally:
                self._note_end(call)
        raise ConnectionClosed(_CLOSED_HERE)

    def _note_end(self, call: _Call) -> None:
        del self._calls[call]
        if self._call_ended is not None:
            self._call_ended.set()
            self._call_ended = None

    async def _serve(
        self, runner: ServerRunner[Any], connection: Connection, call: _Call, method: str, params: dict[str, Any]
    ) -> Any:
        try:
            return to_builtins(await run_interruptible(runner.handle_request(call, method, params), call))
        except LocalError as error:
            logger.error("%s failed", method, exc_info=error)
            raise RemoteError.from_error(error_from_exception(error)) from error
        except MCPError as error:
            data = UNSET if error.data is UNSET else to_builtins(error.data)
            raise RemoteError(error.message, code=error.code, data=data) from error
        except Exception as error:
            logger.error("%s failed", method, exc_info=error)
            raise RemoteError.from_error(error_from_exception(error)) from error
        finally:
            call.cancel_requested = True
            call.interruption = None
            # A connection of its own for each call, as over HTTP.
            await aclose_shielded(connection)

    async def take_notification(self, call: _Call, method: str, params: Mapping[str, Any] | None) -> None:
        """Pass a notification of the server to the client; an error of its handler fails no call."""
        try:
            await self._on_notify(cast("Any", call), method, params)
        except BaseException as error:
            logger.error("The handling of %s failed", method, exc_info=failure_of(error, call))

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Do nothing: a server in this process needs no notification of this era; to cancel a call, cancel its task."""

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


def _current_task() -> Any:
    import asyncio

    return asyncio.current_task()
