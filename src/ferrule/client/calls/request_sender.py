"""One request of a client, from its params to its raw result: envelope, time-outs, and recovery of the connection.

A lost session is renewed and a refused revision replaced, each once for a request. A result that is not final goes to
the `ServerHooks` of the client, which can send the request again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from ferrule.client.errors import BadServerResponse, note_facts
from ferrule.kernel.dispatch import CallOptions, OnProgress
from ferrule.protocol.errors import ConnectionClosed, RemoteError
from ferrule.transports.http.errors import SessionLost
from ferrule.wire.json_types import is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import project_params, read_result

if TYPE_CHECKING:
    from ferrule.client.connection.connector import Session
    from ferrule.client.connection.sessions import SessionManager
    from ferrule.client.fast_path.outcome import FirstOutcome
    from ferrule.client.settings import Timeouts

__all__ = ["NOT_GIVEN", "MakeHeaders", "RequestSender", "UnfinishedCall", "UnfinishedHandler", "meta_of"]

NOT_GIVEN: Final[Any] = object()
"""Stands for "not given" where ``None`` means something."""

MakeHeaders = Callable[[], Mapping[str, str]]
"""Returns further HTTP headers of a request (mirrored parameters), anew for each attempt."""

_NO_META: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class UnfinishedCall:
    """A request whose result is not final.

    Attributes:
        method, params: the method and the params of the request.
        send: sends it again with other params, and returns the raw result.
    """

    method: str
    params: dict[str, Any]
    send: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class UnfinishedHandler(Protocol):
    """Makes a final result of one that is not final."""

    async def finish(self, call: UnfinishedCall, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result that the caller gets."""
        ...


class RequestSender:
    """Sends one request and returns its raw result; renews a lost session and replaces a refused revision, once.

    Args:
        sessions: gives the session, and renews it.
        label: returns the server's name for errors.
        timeouts: the time-outs of requests that name none.
        progress: called with the progress of requests that have no ``on_progress`` of their own.
        unfinished: turns results that are not final into final ones.
        explain_failure: adds a hint to an error, such as how to sign in.
    """

    def __init__(
        self,
        sessions: SessionManager,
        *,
        label: Callable[[], str],
        timeouts: Timeouts,
        progress: OnProgress | None,
        unfinished: UnfinishedHandler,
        explain_failure: Callable[[BaseException], Awaitable[None]],
    ) -> None:
        self.sessions = sessions
        self._label = label
        self.timeouts = timeouts
        self._progress = progress
        self._unfinished = unfinished
        self._explain_failure = explain_failure

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = NOT_GIVEN,
        max_total_s: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: MakeHeaders | None = None,
        first: FirstOutcome | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its raw result; see `ferrule.Client.request`.

        Args:
            first: the outcome of this request if the fast path has sent it already; it is used in place of sending.
        """
        session = self.sessions.current
        started = time.monotonic() if first is None else first.started
        try:
            is_sent = first is not None and not first.is_taken
            if session is None or (not is_sent and (session.channel.is_closed or session.is_lost)):
                session = await self.sessions.ensure()
            options = self.options(timeout_s, max_total_s, on_progress)
            result = await self.send_with_recovery(session, method, params, meta, options, headers, first)
            if result.get("resultType", "complete") == "complete":
                return result

            async def again(sent: dict[str, Any]) -> dict[str, Any]:
                return await self.send_with_recovery(self.sessions.required(), method, sent, meta, options, headers)

            return await self._unfinished.finish(UnfinishedCall(method, dict(params or {}), again), result)
        except Exception as error:
            await self._explain_failure(error)
            note_facts(error, self._label(), method, time.monotonic() - started)
            raise

    def options(self, timeout_s: Any, max_total_s: float | None, on_progress: OnProgress | None) -> CallOptions:
        """Return the options of one call for the channel; options that are not given are the client's."""
        options: CallOptions = {}
        if timeout_s is NOT_GIVEN:
            timeout_s = self.timeouts.timeout_s
        if timeout_s is not None:
            options["timeout_s"] = timeout_s
            if self.timeouts.reset_on_progress:
                options["reset_on_progress"] = True
        cap_s = max_total_s if max_total_s is not None else self.timeouts.max_total_s
        if cap_s is not None:
            options["max_total_s"] = cap_s
            options.setdefault("timeout_s", cap_s)
        on_progress = on_progress or self._progress
        if on_progress is not None:
            options["on_progress"] = on_progress
        return options

    async def send_with_recovery(
        self,
        session: Session,
        method: str,
        params: Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        options: CallOptions,
        headers: MakeHeaders | None,
        first: FirstOutcome | None = None,
    ) -> dict[str, Any]:
        """Send a request once, and once more after the recovery of a lost session or a refused revision."""
        try:
            return await self.send_once(session, method, params, meta, options, headers, first)
        # The server has refused the request because of its session, so that the request has had no effect.
        except SessionLost as lost:
            self.sessions.note_lost(session, lost)
            session = await self.sessions.ensure()
            try:
                return await self.send_once(session, method, params, meta, options, headers)
            except SessionLost:  # not again: a server without memory would cause an endless loop
                raise ConnectionClosed("The server lost the new session immediately") from None
        # In the legacy era the handshake has settled the revision, and no later request can change it.
        except RemoteError as error:
            if error.code != JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION or session.revision.has_sessions:
                raise
            switched = self.sessions.switch_revision(session, error)
            if switched is None:
                raise
            return await self.send_once(switched, method, params, meta, options, headers)

    async def send_once(
        self,
        session: Session,
        method: str,
        params: Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        options: CallOptions,
        headers: MakeHeaders | None,
        first: FirstOutcome | None = None,
    ) -> dict[str, Any]:
        """Send a request over a session, in the form of its revision, and return its raw result."""
        revision = session.revision
        if first is not None and not first.is_taken:
            return _checked(method, first.result())
        if revision.has_own_forms:
            params = cast("Mapping[str, Any] | None", project_params(revision, method, params))
        if params is not None and "_meta" in params:
            meta = {**meta_of(params), **(meta or {})}
        if session.meta:
            sent = {**(params or {}), "_meta": {**session.meta, **meta} if meta else session.meta}
            if headers is not None and (extra := headers()):
                options = {**options, "headers": extra}
        elif meta:
            sent = {**(params or {}), "_meta": dict(meta)}
        else:
            sent = cast("dict[str, Any]", params)
        # Asked here, so that a client without middleware does not pay a call for it.
        sender = session if self.sessions.connector.middleware else session.channel
        result = _checked(method, await sender.send_raw_request(method, sent, options))
        if revision.has_own_forms:
            return cast("dict[str, Any]", read_result(revision, method, result))
        return result

    async def ping(self, timeout_s: float | None) -> None:
        """Check that the server responds; see `ferrule.Client.ping`."""
        session = self.sessions.required()
        await self.request("ping" if "ping" in session.revision.requests else "server/discover", timeout_s=timeout_s)


def _checked(method: str, result: Any) -> dict[str, Any]:
    if type(result) is not dict:
        raise BadServerResponse(f"The result of {method} is not an object")
    return cast("dict[str, Any]", result)


def meta_of(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the ``_meta`` of params; an empty mapping where there is none."""
    meta: Any = None if params is None else params.get("_meta")
    return meta if is_mapping(meta) else _NO_META
