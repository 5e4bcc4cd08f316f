"""`AuditRecord`: what is written about one decision, and how it is made of a request; every member is bounded.

A record has no headers, no tokens, no results, and of the arguments only what was chosen. Arguments that a schema
declares as secret (``writeOnly``, ``"format": "password"``) are in no record, neither chosen nor hashed.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from ferrule.kernel.serving.members import ServedMember
from ferrule.protocol.digests import definition_digest
from ferrule.protocol.number_work import is_long
from ferrule.protocol.secret_forms import secret_arguments
from ferrule.wire.codec import canonical, encode, encode_str, to_builtins
from ferrule.wire.faults import EncodeError, FerruleError
from ferrule.wire.json_types import is_mapping

if TYPE_CHECKING:
    from ferrule.app.middleware.access import AccessRequest
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["ArgumentChoice", "AuditRecord", "Definitions", "chosen_arguments", "hashed_arguments", "time_text"]

logger = logging.getLogger("ferrule.audit")

MAX_TEXT: Final = 256
"""Characters of one text of a record; a longer one is cut."""
MAX_ITEMS: Final = 32
"""Scopes, reasons and arguments of one record; further ones are left out."""
_MAX_DEFINITIONS: Final = 10_000

Decision: TypeAlias = Literal["allowed", "denied", "over_quota"]
Outcome: TypeAlias = Literal["ok", "failed", "refused", "cancelled", "timed_out", "input_required", "task"]
ArgumentChoice: TypeAlias = "Iterable[str] | Callable[[AccessRequest], Mapping[str, Any]]"


class AuditRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision and its outcome.

    Members without a value are left out. A text has at most 256 characters, a list 32 members, so that a record has
    at most 32 KiB.

    Attributes:
        time: when the request came, in UTC with milliseconds (RFC 3339).
        event: ``"request"``, or ``"task"``: the end of a task, whose request has a record of its own.
        decision: ``"allowed"``, ``"denied"`` (by a policy or for a missing scope) or ``"over_quota"``.
        outcome: ``"ok"``; ``"failed"``: an error, or a result with ``isError``; ``"refused"``: not allowed;
            ``"cancelled"``; ``"timed_out"``; ``"input_required"``: a question; ``"task"``: it goes on as a task.
        reason: why it was refused, in words for the operator.
        would_deny: the reasons of policies with ``dry_run``.
        error_code: the code of the error that was sent.
        server: the name of the server.
        method: the method of the request.
        kind, member: the kind of the member that the request is about, and its name, URI or template.
        digest: the digest of the member's definition; see `ferrule.protocol.digests.definition_digest`.
        tenant, subject, client: the tenant, the subject and the OAuth client of the sender.
        client_info: the name and version that the client gives of itself; not verified.
        scopes: the scopes of the token.
        request_id: the id of the request, as text.
        task_id: the id of the task.
        trace_id: the trace id of W3C Trace Context that the request brought.
        session: a hash of the session's id, the same for all requests of one session.
        transport: ``"http"``, ``"stdio"``, ``"local"`` and so on.
        protocol_version: the revision.
        arguments: the chosen arguments.
        arguments_hmac: HMAC-SHA256 of all arguments that are not secret, with the audit's key, in hexadecimal digits.
        duration_ms: milliseconds until the answer.
        result_bytes: the size of the result as JSON, in bytes.
        lost: how many records before this one could not be written.
    """

    time: str
    event: Literal["request", "task"] = "request"
    decision: Decision
    outcome: Outcome
    reason: str | None = None
    would_deny: list[str] = []
    error_code: int | None = None
    server: str
    method: str
    kind: str | None = None
    member: str | None = None
    digest: str | None = None
    tenant: str | None = None
    subject: str | None = None
    client: str | None = None
    client_info: str | None = None
    scopes: list[str] = []
    request_id: str | None = None
    task_id: str | None = None
    trace_id: str | None = None
    session: str | None = None
    transport: str
    protocol_version: str
    arguments: dict[str, Any] | None = None
    arguments_hmac: str | None = None
    duration_ms: float
    result_bytes: int | None = None
    lost: int = 0


def cut(text: str | None) -> str | None:
    """Return a text of at most 256 characters."""
    return text if text is None or len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def cut_all(texts: Iterable[str]) -> list[str]:
    """Return at most 32 texts of at most 256 characters."""
    return [f"{cut(text)}" for _, text in zip(range(MAX_ITEMS), texts, strict=False)]


def time_text(seconds: float) -> str:
    """Return a time in seconds since the epoch as RFC 3339, in UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def trace_id_of(ctx: ServerRequestContext[Any]) -> str | None:
    """Return the trace id of a request, from ``_meta`` or else the header ``traceparent``; ``None`` without."""
    found: Any = ctx.meta.get("traceparent") or ctx.transport.headers.get("traceparent")
    parts: list[str] = found.split("-") if isinstance(found, str) and len(found) <= MAX_TEXT else []
    is_id = len(parts) >= 4 and len(parts[1]) == 32 and all(char in "0123456789abcdef" for char in parts[1])
    return parts[1] if is_id else None


def client_info_of(ctx: ServerRequestContext[Any]) -> str | None:
    """Return the name and version that a client says; ``None`` if it says none."""
    found: Any = ctx.session.connection.client_info_raw
    info: Any = to_builtins(found) if found is not None else None
    if not is_mapping(info) or not isinstance(info.get("name"), str):
        return None
    return cut(f"{info['name']} {info.get('version', '')}".strip())


class Definitions:
    """Digests and secret arguments of members, worked out once for each definition."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Any, str | None, frozenset[str]]] = {}

    def of(self, member: ServedMember) -> tuple[str | None, frozenset[str]]:
        """Return the digest of a member's definition, and the names of its secret arguments.

        The digest is ``None`` where the definition is not known or cannot be made.
        """
        known = self._known.get((member.kind, member.name))
        if known is not None and known[0] is member.source and member.source is not None:
            return known[1:]
        try:
            definition = member.definition()
            digest = None if definition is None else definition_digest(definition)
        except FerruleError:  # of a tool that cannot be described, which its list leaves out
            definition = digest = None
        secret = frozenset[str]() if definition is None else secret_arguments(definition.get("inputSchema"))
        if len(self._known) >= _MAX_DEFINITIONS:
            self._known.clear()
        self._known[member.kind, member.name] = (member.source, digest, secret)
        return digest, secret


def chosen_arguments(choice: ArgumentChoice, request: AccessRequest, secret: frozenset[str]) -> dict[str, Any] | None:
    """Return the arguments that a record shows; ``None`` for none."""
    given = request.arguments or {}
    if not callable(choice):
        return _bounded_all({name: given[name] for name in choice if name in given}, secret)
    try:
        return _bounded_all(choice(request), secret)
    except Exception:  # such as a missing argument: leaving one out must not keep a call out of the audit
        logger.exception("The function of arguments= failed for %s; its record has no arguments", request.method)
        return None


def _bounded_all(chosen: Mapping[str, Any], secret: frozenset[str]) -> dict[str, Any] | None:
    made: dict[str, Any] = {}
    for name, value in chosen.items():
        if len(made) < MAX_ITEMS and name not in secret:
            made[f"{cut(str(name))}"] = _bounded(value)
    return made or None


def _bounded(value: Any) -> Any:
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and not is_long(value)):
        return value
    return cut(value if isinstance(value, str) else encode_str(value))


def size_of(result: Any) -> int | None:
    """Return the size of a result as JSON, in bytes; ``None`` for one that cannot be sent."""
    try:
        return len(encode(result))
    except EncodeError:
        return None


def hashed_arguments(key: bytes, request: AccessRequest, secret: frozenset[str]) -> str:
    """Return the HMAC of the arguments that are not secret."""
    shown = {name: value for name, value in (request.arguments or {}).items() if name not in secret}
    return hmac.new(key, b"arguments\n" + canonical(shown), "sha256").hexdigest()
