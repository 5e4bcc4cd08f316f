"""What a proxy does with one message that it forwards: its progress, its result, its error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ferrule.wire.codec import Encoded, encode
from ferrule.wire.types import META_SERVER_INFO

if TYPE_CHECKING:
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["forwarded_result", "names_resource", "progress_to"]


def forwarded_result(raw: Any, *, names_server: bool) -> Any:
    """Return the raw result of the backend in the form that `ferrule.kernel.finish.finish_result` takes.

    Args:
        raw: the result.
        names_server: keep the name of the backend in ``_meta``; otherwise the proxy's own takes its place.
    """
    if isinstance(raw, Encoded):
        return raw
    if raw.get("resultType", "complete") not in ("complete", "input_required"):
        # A result of an extension: the backend knew what this client declares.
        return Encoded(encode(raw))
    meta = raw.get("_meta")
    if not names_server and isinstance(meta, Mapping) and META_SERVER_INFO in meta:
        kept = {key: value for key, value in cast("Mapping[str, Any]", meta).items() if key != META_SERVER_INFO}
        return {**raw, "_meta": kept}
    return raw


def names_resource(data: Any, uri: Any) -> bool:
    """Return whether the data of an error names the requested resource, which in each era means that it is missing."""
    return uri is not None and isinstance(data, Mapping) and cast("Mapping[str, Any]", data).get("uri") == uri


def progress_to(ctx: ServerRequestContext[Any]) -> Callable[[float, float | None, str | None], Any] | None:
    """Return a function that forwards progress to a client; ``None``: it did not ask for any."""
    if ctx.meta.get("progressToken") is None:
        return None

    async def progress(value: float, total: float | None, message: str | None) -> None:
        await ctx.session.progress(value, total, message)

    return progress
