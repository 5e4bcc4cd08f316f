"""A tool of a gateway that says how the servers behind it are, for the model that misses one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ferrule.client.gateway.upstreams.reasons import reason_of

if TYPE_CHECKING:
    from ferrule.client.gateway.upstreams.upstream import Upstream

__all__ = ["status_definition", "status_name", "status_of", "status_result"]

_NAMES: Final = ("gateway_status", "ferrule_gateway_status")


def status_name(prefixes: Iterable[str]) -> str:
    """Return a name for the tool that no tool of a server can have.

    Args:
        prefixes: the prefixes of the servers, without the separator.
    """
    begins = tuple(f"{prefix}_" for prefix in prefixes)
    name = next((name for name in _NAMES if not name.startswith(begins)), None)
    if name is not None:
        return name
    number = 1
    while f"gateway{number}_status".startswith(begins):
        number += 1
    return f"gateway{number}_status"


def status_definition(name: str) -> dict[str, Any]:
    """Return the definition of the tool."""
    return {
        "name": name,
        "title": "Status of the servers",
        "description": "Says which of the servers that the other tools belong to are available, and why one is not.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


def status_of(upstream: Upstream) -> dict[str, Any]:
    """Return the state of one server as JSON, without what its error says."""
    status = upstream.status
    listed = upstream.known.lists.get("tools/list")
    found: dict[str, Any] = {
        "name": upstream.name,
        "state": status.state,
        "since": round(status.since, 3),
        "says": upstream.sentence(),
        "failures": status.failures,
    }
    if listed is not None:
        found["tools"] = len(listed.items)
    if status.error is not None:
        found["reason"] = reason_of(status.error)
    if status.next_attempt_at is not None:
        found["nextAttemptAt"] = round(status.next_attempt_at, 3)
    return found


def status_result(upstreams: Mapping[str, Upstream], notice: str | None = None) -> dict[str, Any]:
    """Return the result of the tool: a line for each server as text, and the same as structured content.

    Args:
        upstreams: the servers by name.
        notice: a line about the gateway itself; ``None`` without.
    """
    lines = [upstream.sentence() for upstream in upstreams.values()]
    text = "\n".join(lines if notice is None else [notice, *lines])
    return {
        "content": [{"type": "text", "text": text or "There are no servers"}],
        "structuredContent": {"servers": [status_of(upstream) for upstream in upstreams.values()]},
    }
