"""The last step of a request: the handler's return value becomes a well-formed result of the connection's revision.

Modern results get their ``resultType``, the server's identity, and cache hints where the method has them; the input
requests of interim results are checked against the client's capabilities. Legacy results lose the fields that their
revision does not define. Encoded bytes (`Encoded`) are finished already: they were made for the revision.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ferrule.kernel.connection import Connection
from ferrule.protocol.caching import hint_for
from ferrule.protocol.capabilities import declares_extension, missing_for_requests
from ferrule.protocol.errors import InternalError, MissingRequiredClientCapability
from ferrule.wire.codec import Encoded, convert, to_builtins
from ferrule.wire.faults import ConvertError, EncodeError
from ferrule.wire.revisions import Revision, project_result, projection_of
from ferrule.wire.types import InputRequiredResult

if TYPE_CHECKING:
    from ferrule.kernel.server import Server

__all__ = ["bad_result", "check_result", "finish_result"]

logger = logging.getLogger(__name__)

_MAX_SHOWN_CHARS: Final = 2_000
"""Maximum length of a result in the log; the client may have chosen its size, and a proxied server the whole of it."""

_NO_META: Final[Mapping[str, Any]] = {}

_projections: dict[tuple[Revision, type[Any]], Callable[[Any], Any] | None] = {}
"""Projections by revision and type of the result; a dictionary here saves two calls for each result."""


def check_result(revision: Revision, method: str, result: Any, is_extension: bool) -> Any:
    """Return the return value of an untrusted handler, if it is a valid result of its method.

    Args:
        revision: the connection's revision.
        method: the method of the request.
        result: the return value; ``None`` for an empty result.
        is_extension: an extension defines the method, so that its result type is not known.

    Raises:
        InternalError: the value is not a valid result. The log has the details, the peer does not.
    """
    if result is None:
        result = {}
    if isinstance(result, Encoded):
        return result
    if not isinstance(result, (Struct, Mapping)):
        raise bad_result(method, f"a {type(result).__name__} is not a result", result)
    known = revision.requests.get(method)
    # The tables know the results of core methods only.
    if known is None or is_extension:
        return cast("Any", result)
    try:
        raw = to_builtins(result)
        if not isinstance(raw, dict):
            raise ConvertError("a result is an object")
        kind = cast("dict[str, Any]", raw).get("resultType", "complete")
        if kind == "input_required":
            convert(raw, InputRequiredResult)
        elif kind == "complete":
            convert(raw, known[1])
    except (ConvertError, EncodeError) as error:
        raise bad_result(method, str(error), result) from error
    return cast("Any", result)


def finish_result(server: Server[Any], connection: Connection, method: str, result: Any) -> Any:
    """Return the result in the form of the connection's revision; the handler's own object is never changed.

    Raises:
        InternalError: the result is not allowed (an unknown ``resultType``, or input requests of a method that cannot
            have any). The log has the details, the peer does not.
        MissingRequiredClientCapability: an input request needs a capability that the client did not declare.
    """
    if isinstance(result, Encoded):
        return result
    if result is None:
        result = {}
    revision = connection.revision
    if not revision.has_result_type:
        return _finish_legacy(revision, method, result)
    if isinstance(result, Struct):
        return _finish_struct(server, connection, method, result)
    return _finish_mapping(server, connection, method, result)


def _finish_legacy(revision: Revision, method: str, result: Any) -> Any:
    # The exact type first, here and elsewhere on this path: asking an abstract class takes half a microsecond.
    if isinstance(result, Struct) or not isinstance(result, Mapping):
        kind = getattr(cast("Any", result), "result_type", None)  # structs of extensions may have none
    else:
        kind = cast("Mapping[str, Any]", result).get("resultType")
    if kind not in (None, "complete"):
        raise bad_result(method, f"resultType {kind!r} does not exist in revision {revision.version}", result)
    return project_result(revision, method, result)


def _finish_struct(server: Server[Any], connection: Connection, method: str, result: Any) -> Any:
    fields = result.__struct_fields__
    if "result_type" not in fields or "meta" not in fields:  # a struct that is not a result type of Ferrule
        return _finish_mapping(server, connection, method, to_builtins(result))
    revision = connection.revision
    key: tuple[Revision, Any] = (revision, result.__class__)
    if key not in _projections:
        _projections[key] = projection_of(*key)
    project = _projections[key]
    if project is not None:
        result = project(result)
        if isinstance(result, dict):  # the revision has another form of the result than fields of the struct can give
            return _finish_projected(server, connection, method, cast("dict[str, Any]", result))
    kind = result.result_type
    meta = result.meta
    # "Overview": the server's identity is in each result; values that the handler has set win.
    stamped = {**server.info_stamp} if meta is None else {**server.info_stamp, **meta}
    if kind is None or kind == "complete":
        hints = server.cache_hints
        hint = hint_for(revision, method, hints) if method in revision.cacheable_methods or method in hints else None
        if hint is None:
            return replace(result, result_type="complete", meta=stamped)
        # A result type without the fields of caching, as one of an extension that has a hint.
        if "ttl_ms" not in fields:
            return _finish_mapping(server, connection, method, to_builtins(result))
        ttl_ms = hint.ttl_ms if result.ttl_ms is None else result.ttl_ms
        scope = hint.scope if result.cache_scope is None else result.cache_scope
        return replace(result, result_type="complete", meta=stamped, ttl_ms=ttl_ms, cache_scope=scope)
    _check_interim(server, connection, method, kind, result)
    return replace(result, meta=stamped)


def _finish_mapping(
    server: Server[Any], connection: Connection, method: str, result: Mapping[str, Any]
) -> dict[str, Any]:
    return _finish_projected(server, connection, method, project_result(connection.revision, method, result))


def _finish_projected(
    server: Server[Any], connection: Connection, method: str, result: Mapping[str, Any]
) -> dict[str, Any]:
    revision = connection.revision
    kind = result.get("resultType", "complete")
    meta = result.get("_meta")
    own = cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else _NO_META
    # A result without `resultType` means "complete", but each result of this era has to say it ("Overview").
    finished: dict[str, Any] = {"resultType": kind, **result, "_meta": {**server.info_stamp, **own}}
    if kind == "complete":
        hint = hint_for(revision, method, server.cache_hints)
        if hint is not None:
            finished.setdefault("ttlMs", hint.ttl_ms)
            finished.setdefault("cacheScope", hint.scope)
        return finished
    _check_interim(server, connection, method, kind, result)
    return finished


def _check_interim(server: Server[Any], connection: Connection, method: str, kind: Any, result: Any) -> None:
    declared = connection.client_capabilities_raw
    # Only result types of the core and of extensions that the client has declared are allowed ("Overview").
    if kind != "input_required":
        extension = server.result_types.get(kind) if isinstance(kind, str) else None
        if extension is None or not declares_extension(declared, extension):
            raise bad_result(method, f"resultType {kind!r} belongs to no extension that this client declared", result)
        return
    allowed = connection.revision.input_required_methods  # 2026-07-28, "Multi Round-Trip Requests"
    if method not in allowed:
        raise bad_result(method, f"only {', '.join(sorted(allowed))} may ask for input", result)
    raw = to_builtins(result)
    requests = raw.get("inputRequests")
    # 2026-07-28, "Multi Round-Trip Requests": at least one of the two, or the client could do nothing with it.
    if not requests and raw.get("requestState") is None:
        raise bad_result(method, "input_required needs inputRequests or requestState", result)
    if requests:
        missing = missing_for_requests(declared, requests)
        if missing is not None:
            raise MissingRequiredClientCapability(missing)


def bad_result(method: str, why: str, result: Any) -> InternalError:
    """Log a result that cannot be sent, with its beginning; return the error to raise, which contains no details."""
    try:
        shown = repr(result)
    except Exception as error:  # of its own class, or it is nested too deeply
        shown = f"a {type(result).__name__} without a repr: {type(error).__name__}"
    if len(shown) > _MAX_SHOWN_CHARS:
        shown = f"{shown[:_MAX_SHOWN_CHARS]}…"
    logger.error("The result of %s cannot be sent: %s; it was %s", method, why, shown)
    return InternalError()
