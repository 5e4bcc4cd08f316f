"""`Audit`: the middleware that records each decision."""

from __future__ import annotations

import hmac
import logging
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

from ferrule.app.execution.running_task import current_task_id, is_task_body
from ferrule.app.middleware.access import AccessRequest, directory_of, members_of
from ferrule.app.middleware.audit.chain import Chain
from ferrule.app.middleware.audit.record import (
    ArgumentChoice,
    AuditRecord,
    Definitions,
    Outcome,
    chosen_arguments,
    client_info_of,
    cut,
    cut_all,
    hashed_arguments,
    size_of,
    time_text,
    trace_id_of,
)
from ferrule.app.middleware.audit.sinks import AuditFunction, AuditSink
from ferrule.app.middleware.audit.writer import AuditWriter, SinkFailed
from ferrule.app.middleware.builtin import RateLimit, RateLimited
from ferrule.app.middleware.names import names_of
from ferrule.app.middleware.policy import Policy
from ferrule.app.middleware.quota import Quota
from ferrule.kernel.serving.members import MemberKind, RequestVerdict, ServedMember, current_verdict
from ferrule.protocol.errors import MCPError
from ferrule.wire.codec import Encoded, to_builtins
from ferrule.wire.json_types import is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode

if TYPE_CHECKING:
    from ferrule.kernel.server import CallNext, ServerRequestContext

__all__ = ["AUDITED_METHODS", "Audit", "AuditUnavailable"]

logger = logging.getLogger("ferrule.audit")

AUDITED_METHODS: Final = frozenset(
    {
        *("tools/call", "resources/read", "prompts/get", "completion/complete"),
        *("resources/subscribe", "subscriptions/listen", "resources/directory/read", "skills/get"),
        *("tasks/cancel", "tasks/update"),
    }
)
"""The methods with a record for each request; of all others only requests that are refused have one."""

_MIN_KEY_BYTES: Final = 16
_NOTHING: Final = ServedMember("tool", "", {})
"""Stands for the member of a request that names none."""


class AuditUnavailable(MCPError):
    """-32603: the audit must record each request and cannot."""

    default_code = JsonRpcErrorCode.INTERNAL_ERROR

    def __init__(self) -> None:
        super().__init__("This server cannot record requests at the moment; try again later")


class Audit:
    """A middleware that writes one record for each decision: allowed, denied or over quota, and how it ended.

    Put it first in the list of middleware, before `Quota` and `Policy`, whose decisions it records. A request that is
    refused before the middleware has no record: one without a valid token (401), or with a malformed envelope.

    A task has two records: that of its request, and one with ``"event": "task"`` at its end.

    Args:
        sink: an `AuditFile`, an `AuditLog`, another `AuditSink`, or a function of the record, sync or async.
        on_failure: what follows when the sink fails. ``"refuse"``: a request is answered after its record is written,
            and with an error if it cannot be; from then on requests are refused before they run, until the sink takes
            records again. ``"continue"``: requests are answered, records wait in the queue, and those for which there
            is no room are lost and counted.
        arguments: the names of the arguments that records show, or a function of the request that returns what they
            show; none by default. If the function raises, the record has none, and the reason is logged. Arguments that
            the schema declares as secret are never shown.
        key: secret of at least 16 bytes. With it, records have the HMAC of all arguments that the schema does not
            declare as secret: calls with equal arguments can be found, and the arguments cannot be guessed. With a
            plain hash, someone who guesses a name or a number could hash the guess and compare. It is the key of the
            chain, too.
        chain: link each record to the one before, so that ``ferrule audit verify`` finds changes.
        methods: methods with a record for each request.
        max_queued: maximum number of records that wait for the sink; further ones are lost and counted.
        clock, wall_clock: return seconds, for durations and since the epoch; for tests.

    Raises:
        ValueError: the key is too short, or there is no such ``on_failure``.
    """

    def __init__(
        self,
        sink: AuditSink | AuditFunction,
        *,
        on_failure: Literal["refuse", "continue"],
        arguments: ArgumentChoice = (),
        key: bytes | str | None = None,
        chain: bool = False,
        methods: Iterable[str] = AUDITED_METHODS,
        max_queued: int = 10_000,
        clock: Callable[[], float] = time.perf_counter,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        if on_failure not in ("refuse", "continue"):
            raise ValueError("on_failure is 'refuse' or 'continue'")
        self._key = key.encode() if isinstance(key, str) else key
        if self._key is not None and len(self._key) < _MIN_KEY_BYTES:
            raise ValueError(f"key has at least {_MIN_KEY_BYTES} bytes")
        self._refuses = on_failure == "refuse"
        self._arguments = arguments if callable(arguments) else names_of(arguments)
        self._methods = frozenset(names_of(methods))
        self._clock = clock
        self._wall_clock = wall_clock
        self._definitions = Definitions()
        self._writer = AuditWriter(sink, Chain(self._key) if chain else None, max_queued)
        self._is_order_checked = False

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext, /) -> Any:
        """See `ferrule.kernel.server.ServerMiddleware`."""
        if ctx.request_id is None:
            return await call_next(ctx)
        if not self._is_order_checked:
            self._check_order(ctx)
        if self._refuses and self._writer.is_failing and ctx.method in self._methods:
            try:
                await self._writer.retry()
            except SinkFailed:
                raise AuditUnavailable() from None
        # Before the call, so that what is cancelled is known, too, and the definition is that of the call.
        named = members_of(ctx)[:1]
        member = await self._member(ctx, *named[0][:2]) if named else None
        verdict = RequestVerdict()
        token = current_verdict.set(verdict)
        began, came_at = self._clock(), self._wall_clock()
        result: Any = None
        failure: BaseException | None = None
        try:
            result = await call_next(ctx)
        except BaseException as error:
            failure = error
            raise
        finally:
            current_verdict.reset(token)
            if ctx.method in self._methods or verdict.decision != "allowed":
                request = AccessRequest.of(ctx, member or _NOTHING, named[0][2] if named else {})
                record = self._record(request, member, verdict, came_at, self._clock() - began, result, failure)
                await self._keep(record, failure)
            failure = None  # its traceback holds this frame
        return result

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all records are written, and return whether they are; blocks.

        The end of the program waits for them, too.

        Args:
            timeout_s: seconds to wait at most for a sink that fails.
        """
        return self._writer.flush(timeout_s)

    async def _keep(self, record: AuditRecord, failure: BaseException | None) -> None:
        if not self._refuses or (failure is not None and not isinstance(failure, Exception)):
            self._writer.submit(record)  # a cancelled request has no answer that could wait for the sink
            return
        try:
            await self._writer.write(record)
        except SinkFailed:
            if failure is None:
                raise AuditUnavailable() from None

    def _check_order(self, ctx: ServerRequestContext[Any]) -> None:
        """Log an error if middleware whose decisions are recorded stands before the audit."""
        self._is_order_checked = True
        for each in ctx.server.middleware:
            if each is self:
                return
            if isinstance(each, Policy | Quota | RateLimit):
                logger.error("%s stands before Audit, so that what it refuses is not recorded", type(each).__name__)

    # -- records --------------------------------------------------------------------------------------------------

    def _record(
        self,
        request: AccessRequest,
        member: ServedMember | None,
        verdict: RequestVerdict,
        came_at: float,
        duration_s: float,
        result: Any,
        failure: BaseException | None,
    ) -> AuditRecord:
        ctx = request.context
        is_task = is_task_body(ctx)
        digest, secret = (None, frozenset[str]()) if member is None else self._definitions.of(member)
        # Without a definition it is not known which arguments of a tool are secret.
        shows = bool(request.arguments) and (digest is not None or request.kind != "tool")
        decision, reason = verdict.decision, verdict.reason
        if decision == "allowed" and failure is not None:
            decision, reason = _refusal(failure)
        outcome = _outcome(verdict, decision != "allowed", result, failure)
        session_id = ctx.session.session_id
        return AuditRecord(
            time=time_text(came_at),
            event="task" if is_task else "request",
            decision=decision,
            outcome=outcome,
            reason=cut(reason),
            would_deny=cut_all(verdict.would_deny),
            error_code=failure.code if isinstance(failure, MCPError) else None,
            server=f"{cut(ctx.server.server_info.name)}",
            method=f"{cut(ctx.method)}",
            kind=None if member is None else member.kind,
            member=None if member is None else cut(member.name),
            digest=digest,
            tenant=cut(request.tenant),
            subject=cut(request.subject),
            client=cut(request.client),
            client_info=client_info_of(ctx),
            scopes=cut_all(sorted(request.scopes)),
            request_id=cut(str(ctx.request_id)),
            task_id=cut(current_task_id() if is_task else _task_id(ctx, result)),
            trace_id=trace_id_of(ctx),
            session=None if session_id is None else _short_hash(session_id),
            transport=ctx.transport.kind,
            protocol_version=ctx.protocol_version,
            arguments=chosen_arguments(self._arguments, request, secret) if shows else None,
            arguments_hmac=None if self._key is None or not shows else hashed_arguments(self._key, request, secret),
            duration_ms=round(duration_s * 1000, 3),
            result_bytes=None if failure is not None or result is None else size_of(result),
        )

    async def _member(self, ctx: ServerRequestContext[Any], kind: MemberKind, name: str) -> ServedMember:
        directory = directory_of(ctx.server)
        unknown = ServedMember(kind, name, {})
        try:
            return unknown if directory is None else await directory.find(ctx, kind, name) or unknown
        except MCPError:  # of a server behind, which the request will get, too
            return unknown


def _refusal(failure: BaseException) -> tuple[Literal["allowed", "denied", "over_quota"], str | None]:
    """Return the decision that an exception of a request stands for, and its reason."""
    if isinstance(failure, RateLimited):
        return "over_quota", "a rate limit"
    refusals = sys.modules.get("ferrule.auth.server.refusals")  # not loaded: nothing has refused a token
    if refusals is not None and isinstance(failure, refusals.InsufficientScope):
        return "denied", f"the token lacks a scope: {failure}"
    return "allowed", None


def _outcome(verdict: RequestVerdict, is_refused: bool, result: Any, failure: BaseException | None) -> Outcome:
    if failure is not None and not isinstance(failure, Exception):
        return "cancelled"
    if is_refused:
        return "refused"
    if verdict.timed_out:
        return "timed_out"
    if failure is not None:
        return "failed"
    made: Any = to_builtins(result) if isinstance(result, Encoded) else result
    facts = made if is_mapping(made) else None
    # A handler of the low-level server may return any Struct.
    is_error = getattr(made, "is_error", None) if facts is None else facts.get("isError")
    kind = getattr(made, "result_type", None) if facts is None else facts.get("resultType")  # as above
    if is_error is True:
        return "failed"
    if kind == "input_required":
        return "input_required"
    return "task" if _task_of(made) is not None else "ok"


def _task_of(result: Any) -> Any:
    """Return what a result says about the task that a call has become; ``None`` if it has become none."""
    if is_mapping(result):
        task = result.get("task")
        found = task if is_mapping(task) else result
        return found.get("taskId")
    task = getattr(result, "task", None) or result  # a result of the low-level server may be any Struct
    return getattr(task, "task_id", None)  # as above


def _task_id(ctx: ServerRequestContext[Any], result: Any) -> str | None:
    params: Any = ctx.params
    found = params.get("taskId") if is_mapping(params) else None
    if found is None and ctx.method == "tools/call":
        found = _task_of(to_builtins(result) if isinstance(result, Encoded) else result)
    return found if isinstance(found, str) else None


def _short_hash(text: str) -> str:
    # Of a random id, which cannot be guessed: a plain hash is enough, and is the same in every process.
    return hmac.new(b"ferrule session", text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:16]
