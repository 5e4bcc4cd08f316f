"""The dispatch context of a task: that of its request until the call becomes a task, then one that uses the record.

Also the whole context of a task whose request was received by another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ferrule.extensions.tasks.record import TaskRecord
from ferrule.kernel.concurrency.cancellation import Interruptible
from ferrule.kernel.connection import Connection, NotifyOnly
from ferrule.kernel.dispatch import CallOptions, DispatchContext, TransportContext
from ferrule.kernel.server import ServerRequestContext
from ferrule.kernel.session import ServerSession
from ferrule.protocol.errors import NoBackChannel
from ferrule.wire.revisions import REVISIONS
from ferrule.wire.types import CallToolRequestParams

if TYPE_CHECKING:
    from ferrule.extensions.tasks.run import TaskRun

__all__ = ["PrincipalReader", "TaskDispatch", "TaskTransport", "rebuilt_context"]


class PrincipalReader:
    """An attachment of a server: makes the principal of a task that another process received from its id.

    Args:
        read: called on the event loop with the id, or with ``None`` for an anonymous sender.
    """

    __slots__ = ("read",)

    def __init__(self, read: Callable[[str | None], Any]) -> None:
        self.read = read


@dataclass(frozen=True, slots=True)
class TaskTransport(TransportContext):
    """The facts of the request that began a task, for a task resumed by another process.

    Its principal is text, unless the server has a `PrincipalReader`.
    """

    kind: str = "task"
    can_send_request: bool = False
    is_network: bool = field(default=True, kw_only=True)


class TaskDispatch(Interruptible):
    """The dispatch context of a call that may become a task: that of its request first, the record afterwards."""

    __slots__ = ("_run", "cancel_requested", "inner", "request_id", "transport")

    can_send_request = False

    def __init__(self, run: TaskRun, inner: DispatchContext | None, transport: TransportContext) -> None:
        super().__init__()
        self._run = run
        self.inner = inner
        self.request_id = None if inner is None else inner.request_id
        self.transport = transport
        self.cancel_requested = False

    @property
    def served_task_id(  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        self,
    ) -> str | None:
        """The id of the task; ``None`` while the call is not a task."""
        return self._run.task_id

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refuse the request; a task asks questions by ``ctx.elicit``, ``ctx.sample`` and ``ctx.roots``.

        Raises:
            NoBackChannel: always.
        """
        raise NoBackChannel(f"{method} cannot be sent from a task; use ctx.elicit, ctx.sample or ctx.roots")

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification to the client of the request; later only to a legacy client that has a stream."""
        if self.inner is not None:
            await self.inner.notify(method, params)
        else:
            await self._run.publish(method, params)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress while the request waits; later set the status message of the task."""
        if self.inner is not None:
            await self.inner.progress(progress, total, message)
        else:
            await self._run.report(progress, total, message)


def rebuilt_context(record: TaskRecord, server: Any, lifespan_state: Any) -> ServerRequestContext[Any]:
    """Return the context of a task that another process began."""
    revision = REVISIONS[record.protocol_version]
    reader = server.attachments.get(PrincipalReader)
    transport = TaskTransport(principal=record.principal if reader is None else reader.read(record.principal))
    if not revision.has_sessions:
        connection = Connection.from_envelope(record.protocol_version, record.client_info, record.capabilities)
    else:
        connection = Connection(NotifyOnly(None), revision)
        connection.client_capabilities_raw = record.capabilities
        connection.client_info_raw = record.client_info
        connection.initialize_accepted = True
    params = CallToolRequestParams(name=record.tool, arguments=record.arguments, input_responses=record.responses)
    session = ServerSession(connection, _NoDispatch(), record.meta)
    return ServerRequestContext(
        session,
        lifespan_state,
        "tools/call",
        params,
        record.task_id,  # `None` would be a notification, which middleware lets pass
        record.meta,
        record.protocol_version,
        transport,
        server,
    )


class _NoDispatch:
    """A dispatch context without a peer, until `TaskRun` replaces it."""

    transport = TransportContext("task", can_send_request=False)
    request_id = None
    can_send_request = False
    cancel_requested = False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannel(f"{method} cannot be sent from a task")

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        return None

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        return None
