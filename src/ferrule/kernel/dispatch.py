"""What the kernel needs of whatever carries messages: a few small protocols and the facts of a transport.

A dispatcher turns a channel into calls: it hands inbound requests to an `OnRequest`, inbound notifications to an
`OnNotify`, and sends what this side has to say. The kernel never learns how. Transport facts reach handlers as a
typed `TransportContext` per transport, never as raw carrier metadata.
"""

from __future__ import annotations

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


__all__ = [
    "CallOptions",
    "ClosesStream",
    "DelaysUntilRead",
    "DescribesTransport",
    "DispatchContext",
    "Dispatcher",
    "EncodesMessages",
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
    "StreamMessage",
    "TransportContext",
    "WriteStream",
    "WritesResults",
]


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _frozen_dataclass(kind: type[T]) -> type[T]:
    """Make a frozen dataclass of a class that has written its methods out; others are compiled at each start."""
    made = dataclass(slots=True, init=False, repr=False, eq=False)(kind)
    cast("Any", made).__dataclass_params__.frozen = True  # so that dataclasses that are subclasses can be, and must be
    return made


@_frozen_dataclass
class TransportContext:
    """Facts of the transport that carried a message. A transport with more facts subclasses it.

    Attributes:
        kind: ``"stdio"``, ``"http"``, ``"memory"``, ``"direct"`` or a transport's own word.
        can_send_request: whether the peer can be asked something over it.
        is_network: whether anybody who reaches an address may have sent the message. Then a ``principal`` of ``None``
            is an anonymous sender, to whom ``scopes=`` and ``allow=`` of components apply. Elsewhere (stdio, memory)
            the peer is the owner of the process, to whom they do not.
        principal: who authenticated; ``None`` without authentication.
        headers: of the HTTP request that carried the message, or that opened the connection: lower-case names.
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
"""Called with ``(progress, total, message)`` for a request in flight."""


# As a class its annotations would be compiled at each start of a process.
CallOptions = TypedDict(  # noqa: UP013
    "CallOptions",
    {
        "timeout_s": float | None,
        "on_progress": OnProgress | None,
        "reset_on_progress": bool,
        "max_total_s": float | None,
    },
    total=False,
)
"""Options of one outbound request.

timeout_s: seconds to wait for the answer; none by default. On expiry the peer is told (`notifications/cancelled`).
on_progress: asks the peer for progress and receives it.
reset_on_progress: each progress restarts ``timeout_s``.
max_total_s: absolute cap in seconds beside ``reset_on_progress``.
"""


class Outbound(Protocol):
    """What this side can say to its peer."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the peer and wait for its result.

        Raises:
            RemoteError: the peer answered with an error.
            RequestTimeout: no answer in time.
            ConnectionClosed: the channel ended first.
            NoBackChannel: this channel carries no requests.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tell the peer something; returns when it was handed to the transport."""
        ...


@runtime_checkable
class DispatchContext(Outbound, Protocol):
    """One inbound message and the way back that belongs to it."""

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
        """Report progress on the request, if the peer asked for it; otherwise do nothing."""
        ...


OnRequest: TypeAlias = Callable[[DispatchContext, str, Mapping[str, Any] | None], Awaitable[Any]]
"""Serves one request: ``(dctx, method, params) -> result``; what it raises becomes the error response."""

OnNotify: TypeAlias = Callable[[DispatchContext, str, Mapping[str, Any] | None], Awaitable[None]]
"""Takes one notification: ``(dctx, method, params)``."""


class Dispatcher(Outbound, Protocol):
    """A channel to one peer, both ways."""

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
    """What a stream pair carries: one message with its transport facts.

    Attributes:
        message: inbound a decoded mapping (not yet classified) or a typed message; outbound a typed message.
        transport: facts of what carried it; ``None`` takes the dispatcher's.
    """

    message: JsonRpcMessage | Mapping[str, Any] | Any
    transport: TransportContext | None = None


class ReadStream(Protocol):
    """The inbound half of a stream pair; an anyio memory object stream fits."""

    async def receive(self) -> Any:
        """Return the next `StreamMessage` (a bare message works too), or the exception that reading it produced.

        Raises:
            anyio.EndOfStream: there will be no more.
        """
        ...

    async def aclose(self) -> None:
        """Stop reading."""
        ...


class WriteStream(Protocol):
    """The outbound half of a stream pair; an anyio memory object stream fits.

    What more a stream can do, it says by the protocols below: `EncodesMessages`, `WritesResults`, `DelaysUntilRead`.
    """

    async def send(self, item: Any, /) -> None:
        """Hand over one `StreamMessage`.

        Raises:
            anyio.BrokenResourceError, anyio.ClosedResourceError: the peer, or this side, has closed.
        """
        ...

    async def aclose(self) -> None:
        """Finish writing."""
        ...


@runtime_checkable
class DescribesTransport(Protocol):
    """A read stream that knows the transport's facts, for the messages that bring none of their own."""

    @property
    def transport(self) -> TransportContext:
        """Facts that hold for every message of the stream."""
        ...


@runtime_checkable
class LimitsDrain(Protocol):
    """A read stream that says how long accepted requests may take after its end.

    Attributes:
        drain_s: seconds; what still runs then is cancelled.
    """

    drain_s: float


@runtime_checkable
class EncodesMessages(Protocol):
    """A write stream that can encode messages itself.

    Attributes:
        encodes: whether it does; then results reach it as Structs or ready-made bytes too, otherwise as builtins only.
    """

    encodes: bool


@runtime_checkable
class WritesResults(Protocol):
    """A write stream with a faster way for results, which `WriteStream.send` does not get then."""

    def send_result(self, id: RequestId, result: Any) -> Awaitable[None] | None:
        """Write the result of the request ``id``.

        Returns:
            What is left to wait for; ``None`` if it has been written.

        Raises:
            EncodeError: it has no JSON form.
            anyio.BrokenResourceError, anyio.ClosedResourceError, OSError: the peer, or this side, has closed.
        """
        ...


@runtime_checkable
class DelaysUntilRead(Protocol):
    """A write stream that can hold an answer back until the peer has read the progress notifications before it.

    Some clients, the official TypeScript ones among them, stop delivering the progress of a call as soon as its answer
    is parsed. They lose every notification that comes out of the same read as the answer.
    """

    async def wait_until_read(self) -> None:
        """Return when the peer has read what was written so far, or after a bounded time."""
        ...


@runtime_checkable
class RepliesEarly(Protocol):
    """A dispatch context that can answer its request while the handler still runs."""

    async def answer(self, result: Any = None, *, error: Exception | None = None) -> None:
        """Answer now; what the handler returns, raises or sends later is dropped.

        Args:
            result: the finished result.
            error: the answer instead of a result.
        """
        ...


@runtime_checkable
class NotifiesAfterResult(Protocol):
    """A dispatch context that can send a notification right after the result of its request."""

    def notify_after_result(self, method: str, params: Mapping[str, Any]) -> None:
        """Send this notification behind the result; drop it if the request ends without one."""
        ...


@runtime_checkable
class SendsEncoded(Protocol):
    """A dispatch context that takes notifications as bytes: one that goes to many peers is encoded once."""

    async def send_encoded(self, message: bytes) -> None:
        """As `Outbound.notify`, for a whole message that is encoded already."""
        ...


@runtime_checkable
class ClosesStream(Protocol):
    """A dispatch context whose answer goes over a stream that can be closed and resumed (2025-11-25, SEP-1699)."""

    async def close_stream(self, retry_ms: int | None = None) -> None:
        """Close the stream while the handler works on; the client comes back for the rest.

        Args:
            retry_ms: milliseconds after which the client should come back; ``None`` takes the transport's option.

        Raises:
            NoBackChannel: this stream cannot be resumed.
        """
        ...


@runtime_checkable
class RunsTasks(Protocol):
    """A dispatcher that can run tasks that belong to no request, such as one that forwards changes to the peer."""

    @property
    def is_running(self) -> bool:
        """Whether `Dispatcher.run` is serving, so that `start_task` can start a task."""
        ...

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, which must not raise, until it or `Dispatcher.run` ends; only while `is_running`."""
        ...


class ProgressSender(Interruptible):
    """The `progress` of a dispatch context, over its `notify`: opt-in by token, strictly rising.

    Mix it in, set ``progress_params`` (of the request; ``None`` once nothing more may be said), ``_gate = None`` and
    what `Interruptible` wants.
    """

    __slots__ = ("_gate", "progress_params")

    progress_params: Mapping[str, Any] | None
    _gate: ProgressGate | None

    @property
    def progress_token(self) -> RequestId | None:
        """What the peer asked for progress under; looked up when needed, since few handlers report any."""
        return progress_token(self.progress_params)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the peer asked for it and the value rises."""
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
        """Overridden by the context."""
        raise NotImplementedError
