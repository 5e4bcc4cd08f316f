"""The interface between the kernel and a transport: small protocols, and the facts of a transport.

A dispatcher turns a channel into calls: it calls an `OnRequest` for each inbound request and an `OnNotify` for each
inbound notification, and it sends requests and notifications of this side. Facts of the transport reach handlers as a
typed `TransportContext`, never as raw metadata of the carrier.

Optional capabilities of a stream or a dispatch context are protocols of their own, found with `isinstance`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import FrozenInstanceError, dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
    dataclass_transform,
    runtime_checkable,
)

from msgspec import Struct

from ferrule.kernel.concurrency.cancellation import Interruptible
from ferrule.kernel.concurrency.spawner import STATUS_IGNORED
from ferrule.protocol.correlation import ProgressGate, progress_token
from ferrule.wire.jsonrpc import JsonRpcMessage, RequestId

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from ferrule.kernel.concurrency.spawner import Spawner


__all__ = [
    "CallOptions",
    "ClosesStream",
    "DelaysUntilRead",
    "DescribesTransport",
    "DispatchContext",
    "Dispatcher",
    "EncodesMessages",
    "FastPath",
    "LimitsDrain",
    "NotifiesAfterResult",
    "OnNotify",
    "OnProgress",
    "OnRequest",
    "Outbound",
    "ProgressSender",
    "ReadStream",
    "RepliesEarly",
    "RunsTasks",
    "SendsEncoded",
    "ShowsFrames",
    "StreamMessage",
    "TakeFrames",
    "TransportContext",
    "WriteStream",
    "WritesPieces",
    "WritesResults",
]


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _frozen_dataclass(kind: type[T]) -> type[T]:
    """Return a class, which defines its methods itself, as a frozen dataclass; others are compiled at each start."""
    made = dataclass(slots=True, init=False, repr=False, eq=False)(kind)
    cast("Any", made).__dataclass_params__.frozen = True  # a dataclass that is a subclass must then be frozen too
    return made


@_frozen_dataclass
class TransportContext:
    """Facts of the transport that carried a message. A transport with more facts subclasses it.

    Attributes:
        kind: ``"stdio"``, ``"http"``, ``"memory"``, ``"direct"`` or another name that a transport defines.
        can_send_request: whether requests can be sent to the peer over it.
        is_network: whether the message came over a network. Then a ``principal`` of ``None`` is an anonymous sender,
            and ``scopes=`` and ``allow=`` of components apply. Otherwise (stdio, memory) the peer is the owner of the
            process, and they do not apply.
        principal: the authenticated sender; ``None`` without authentication.
        headers: headers of the HTTP request that carried the message or opened the connection; names in lower case.
        client: address and port of the peer's socket; ``None`` where there is none, or it is not known.
    """

    kind: str = "stream"
    can_send_request: bool = True
    is_network: bool = field(default=False, kw_only=True)
    principal: Any = field(default=None, kw_only=True)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)
    client: tuple[str, int] | None = field(default=None, kw_only=True)

    def __init__(
        self,
        kind: str = "stream",
        can_send_request: bool = True,
        *,
        is_network: bool = False,
        principal: Any = None,
        headers: Mapping[str, str] | None = None,
        client: tuple[str, int] | None = None,
    ) -> None:
        write = object.__setattr__
        write(self, "kind", kind)
        write(self, "can_send_request", can_send_request)
        write(self, "is_network", is_network)
        write(self, "principal", principal)
        write(self, "headers", {} if headers is None else headers)
        write(self, "client", client)

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self._facts())})"

    def __eq__(self, other: object) -> bool:
        return self._facts() == other._facts() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(value for _, value in self._facts()))

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        for name, value in state[1].items():
            object.__setattr__(self, name, value)

    def _facts(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__dataclass_fields__]

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise FrozenInstanceError(f"cannot delete field {name!r}")


OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""Called with ``(progress, total, message)`` for each progress notification of a request in flight."""


# As a class its annotations would be compiled at each start of a process.
CallOptions = TypedDict(  # noqa: UP013
    "CallOptions",
    {
        "timeout_s": float | None,
        "on_progress": OnProgress | None,
        "reset_on_progress": bool,
        "max_total_s": float | None,
        "headers": Mapping[str, str],
        "on_id": Callable[[RequestId], None],
    },
    total=False,
)
"""Options of one outbound request.

timeout_s: seconds to wait for the response; no limit by default. On expiry ``notifications/cancelled`` is sent.
on_progress: called with each progress notification; the request then carries a progress token.
reset_on_progress: each progress notification restarts ``timeout_s``.
max_total_s: maximum total time in seconds, which progress does not restart.
headers: further HTTP headers of this request (mirrored parameters); other transports ignore them.
on_id: called with the id of the request before it is sent.
"""


class Outbound(Protocol):
    """A channel that sends requests and notifications to the peer."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and return the ``result`` of its response.

        Args:
            method, params: the method and the params of the request.
            opts: time-outs and progress callback.

        Raises:
            RemoteError: the peer sent an error response.
            RequestTimeout: no response came in time.
            ConnectionClosed: the channel closed before the response.
            NoBackChannel: this channel carries no requests.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; return when the transport has accepted it."""
        ...


@runtime_checkable
class DispatchContext(Outbound, Protocol):
    """One inbound message, and the channel for messages to the peer that belong to it."""

    @property
    def transport(self) -> TransportContext:
        """Facts of the transport that carried the message."""
        ...

    @property
    def request_id(self) -> RequestId | None:
        """The request's id; ``None`` for a notification."""
        ...

    @property
    def can_send_request(self) -> bool:
        """Whether `send_raw_request` can work here."""
        ...

    @property
    def cancel_requested(self) -> bool:
        """Whether the peer has withdrawn the request."""
        ...

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress of the request, if the peer sent a progress token; otherwise do nothing."""
        ...


OnRequest: TypeAlias = Callable[[DispatchContext, str, Mapping[str, Any] | None], Awaitable[Any]]
"""Serves one request: ``(dctx, method, params) -> result``; an exception becomes the error response."""

OnNotify: TypeAlias = Callable[[DispatchContext, str, Mapping[str, Any] | None], Awaitable[None]]
"""Handles one notification: ``(dctx, method, params)``."""


TakeFrames: TypeAlias = Callable[[deque[Any]], bool]
"""Takes frames from the left of a queue. Returns whether it must be called again for the remaining frames, in the next
iteration of the event loop; otherwise `ReadStream.receive` returns those."""


class Dispatcher(Outbound, Protocol):
    """A channel to one peer, in both directions."""

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        *,
        task_status: TaskStatus[None] = STATUS_IGNORED,
    ) -> None:
        """Serve inbound messages until the channel closes."""
        ...


class StreamMessage(Struct):
    """One message of a stream pair, with the facts of its transport.

    Attributes:
        message: inbound: a decoded mapping, not yet classified, or a typed message. Outbound: a typed message.
        transport: facts of the transport; ``None`` for those of the dispatcher.
    """

    message: JsonRpcMessage | Mapping[str, Any] | Any
    transport: TransportContext | None = None


class ReadStream(Protocol):
    """The inbound half of a stream pair; an anyio memory object stream fits."""

    async def receive(self) -> Any:
        """Return the next `StreamMessage` (a bare message works too), or the exception that reading it produced.

        Raises:
            anyio.EndOfStream: the stream has ended.
        """
        ...

    async def aclose(self) -> None:
        """Stop reading."""
        ...


class WriteStream(Protocol):
    """The outbound half of a stream pair; an anyio memory object stream fits.

    A stream may also implement the protocols below: `EncodesMessages`, `WritesResults`, `DelaysUntilRead`.
    """

    async def send(self, item: Any, /) -> None:
        """Write one `StreamMessage`.

        Raises:
            anyio.BrokenResourceError, anyio.ClosedResourceError: the peer, or this side, has closed.
        """
        ...

    async def aclose(self) -> None:
        """Finish writing."""
        ...


@runtime_checkable
class DescribesTransport(Protocol):
    """A read stream with facts of its transport, used for messages that have none of their own."""

    @property
    def transport(self) -> TransportContext:
        """Facts that hold for every message of the stream."""
        ...


@runtime_checkable
class LimitsDrain(Protocol):
    """A read stream with a limit for the time that accepted requests may take after its end.

    Attributes:
        drain_s: seconds after which requests that still run are cancelled.
    """

    drain_s: float


@runtime_checkable
class EncodesMessages(Protocol):
    """A write stream that can encode messages itself.

    Attributes:
        encodes: whether it does. If so, results may be Structs or encoded bytes; otherwise they are builtins only.
    """

    encodes: bool


@runtime_checkable
class WritesResults(Protocol):
    """A write stream with a faster method for results; the dispatcher then calls it instead of `WriteStream.send`."""

    def send_result(self, id: RequestId, result: Any) -> Awaitable[None] | None:
        """Write the result of the request ``id``.

        Returns:
            An awaitable that ends when the result is written; ``None`` if it is written already.

        Raises:
            EncodeError: the result has no JSON form.
            anyio.BrokenResourceError, anyio.ClosedResourceError, OSError: the peer, or this side, has closed.
        """
        ...


@runtime_checkable
class ShowsFrames(Protocol):
    """A read stream that passes arrived frames to a function before `ReadStream.receive` returns them.

    It does so only while a caller waits in ``receive``: all earlier frames have been taken then.
    """

    def show_frames(self, take: TakeFrames | None) -> None:
        """Call ``take`` with the frames that arrive from now on; ``None`` stops that."""
        ...

    def frames_taken(self, count: int, unanswered: int) -> None:
        """Record frames that ``take`` took, for the stream's limit of unanswered frames.

        Args:
            count: the number of frames that were taken.
            unanswered: the change of the number of taken frames without a response; negative after responses.
        """
        ...


@runtime_checkable
class WritesPieces(Protocol):
    """A write stream that accepts encoded messages as lists of byte strings."""

    @property
    def is_congested(self) -> bool:
        """Whether a sender would have to wait now."""
        ...

    def send_pieces(self, pieces: list[bytes], *, flush: bool) -> None:
        """Write pieces that together are whole frames with their ends; never waits.

        Args:
            pieces: the bytes, in order.
            flush: send them now; otherwise they may wait for further pieces.
        """
        ...


class FastPath(Protocol):
    """Serves plain messages of a stream pair before its dispatcher receives them."""

    def open(self, read: ReadStream, write: WriteStream, spawner: Spawner) -> None:
        """Start to serve plain messages; do nothing if this event loop or these streams do not support it.

        Args:
            read, write: the stream pair of the dispatcher.
            spawner: the spawner of the dispatcher.
        """
        ...

    def close(self) -> None:
        """Serve no further messages; idempotent."""
        ...


@runtime_checkable
class DelaysUntilRead(Protocol):
    """A write stream that can delay a response until the peer has read the progress notifications before it.

    Some clients, among them those of the official TypeScript SDK, stop delivering the progress of a call when they have
    parsed its response. They lose each notification that arrives in the same read as the response.
    """

    async def wait_until_read(self) -> None:
        """Return when the peer has read everything written so far, or after a bounded time."""
        ...


@runtime_checkable
class RepliesEarly(Protocol):
    """A dispatch context that can send the response to its request while the handler still runs."""

    async def answer(self, result: Any = None, *, error: Exception | None = None) -> None:
        """Send the response now; everything that the handler returns, raises or sends later is dropped.

        Args:
            result: the finished result.
            error: sent as an error response instead of a result.
        """
        ...


@runtime_checkable
class NotifiesAfterResult(Protocol):
    """A dispatch context that can send a notification right after the result of its request."""

    def notify_after_result(self, method: str, params: Mapping[str, Any]) -> None:
        """Send this notification right after the result; drop it if the request ends without a result."""
        ...


@runtime_checkable
class SendsEncoded(Protocol):
    """A dispatch context that takes notifications as bytes: one that goes to many peers is encoded once."""

    async def send_encoded(self, message: bytes) -> None:
        """As `Outbound.notify`, for a whole message that is encoded already."""
        ...


@runtime_checkable
class ClosesStream(Protocol):
    """A dispatch context whose response uses a stream that can be closed and resumed (2025-11-25, SEP-1699)."""

    async def close_stream(self, retry_ms: int | None = None) -> None:
        """Close the stream while the handler continues; the client reconnects for the remaining events.

        Args:
            retry_ms: milliseconds after which the client should reconnect; ``None`` for the transport's option.

        Raises:
            NoBackChannel: this stream cannot be resumed.
        """
        ...


@runtime_checkable
class RunsTasks(Protocol):
    """A dispatcher that can run tasks outside any request, such as one that forwards changes to the peer."""

    @property
    def is_running(self) -> bool:
        """Whether `Dispatcher.run` is serving, so that `start_task` can start a task."""
        ...

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task for a coroutine; it is cancelled when `Dispatcher.run` ends. Only while `is_running`.

        Args:
            coroutine: it must not raise.
        """
        ...


class ProgressSender(Interruptible):
    """A mixin that implements `progress` of a dispatch context with its `notify`.

    Progress is sent only if the request has a progress token, and only rising values ("Progress").

    Args:
        params: the params of the request.

    Attributes:
        progress_params: as given; a subclass sets ``None`` after the response.
    """

    __slots__ = ("_gate", "progress_params")

    def __init__(self, params: Mapping[str, Any] | None) -> None:
        # `Interruptible.__init__` written out: one call less for each request of the general path.
        self.left_over = 0
        self.interruption = None
        self.foreign_cancels = 0
        self.progress_params = params
        self._gate: ProgressGate | None = None

    @property
    def progress_token(self) -> RequestId | None:
        """The progress token that the peer sent; ``None`` without one."""
        return progress_token(self.progress_params)  # not kept: few handlers report progress

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if there is a token and ``progress`` is higher than the last value sent."""
        token = self.progress_token
        if token is None:
            return
        if self._gate is None:
            self._gate = ProgressGate()
        if not self._gate.passes(progress):
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; the context overrides this."""
        raise NotImplementedError
