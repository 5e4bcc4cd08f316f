"""Names and rules of OpenTelemetry's semantic conventions for MCP, of one pinned version; nothing here needs the API.

The conventions are in ``open-telemetry/semantic-conventions-genai`` (``docs/gen-ai/mcp.md``); all of ``mcp.*`` and
``gen_ai.*`` is "Development" there, so that a later version may rename what this module writes. It is the only module
that writes the names; a test compares what is recorded with the tables of the conventions.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ferrule.protocol.secret_forms import mask_secrets

__all__ = [
    "BOUNDARIES_S",
    "CALLER_ERRORS",
    "CLIENT_OPERATION_DURATION",
    "CLIENT_SESSION_DURATION",
    "CONVENTIONS_VERSION",
    "MAX_TEXT",
    "SERVER_OPERATION_DURATION",
    "SERVER_SESSION_DURATION",
    "TOOL_ERROR",
    "bounded",
    "component_attributes",
    "describes_failure",
    "network_attributes",
    "server_attributes",
    "session_hash",
    "span_name",
    "target_of",
]

CONVENTIONS_VERSION: Final = "0.1.0"
"""The version of semantic-conventions-genai that names and rules are of."""

CLIENT_OPERATION_DURATION: Final = "mcp.client.operation.duration"
SERVER_OPERATION_DURATION: Final = "mcp.server.operation.duration"
CLIENT_SESSION_DURATION: Final = "mcp.client.session.duration"
SERVER_SESSION_DURATION: Final = "mcp.server.session.duration"

BOUNDARIES_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Bucket boundaries of the four histograms, in seconds."""

TOOL_ERROR: Final = "tool_error"
"""The ``error.type`` of a result with ``isError``."""

CALLER_ERRORS: Final = frozenset({-32700, -32600, -32601, -32602, -32002})
"""Codes that are no error on the server's side: the caller sent what cannot be served."""

MAX_TEXT: Final = 512
"""Most characters of a text that the peer has chosen: a name, a URI, the message of an error."""

_TARGETS: Final = {
    "tools/call": ("name", "gen_ai.tool.name"),
    "prompts/get": ("name", "gen_ai.prompt.name"),
    "resources/read": ("uri", "mcp.resource.uri"),
    "resources/subscribe": ("uri", "mcp.resource.uri"),
    "resources/unsubscribe": ("uri", "mcp.resource.uri"),
}
_NETWORKS: Final[Mapping[str, Mapping[str, str]]] = {
    "http": {"network.transport": "tcp", "network.protocol.name": "http"},
    "sse": {"network.transport": "tcp", "network.protocol.name": "http"},
    "stdio": {"network.transport": "pipe"},
    "pipe": {"network.transport": "pipe"},
    "unix": {"network.transport": "unix"},
}
_NO_NETWORK: Final[Mapping[str, str]] = {}


def bounded(text: str) -> str:
    """Return a text of at most `MAX_TEXT` characters; a longer one is cut and ends with "…"."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def target_of(method: str, params: Any) -> str | None:
    """Return the tool, the prompt or the URI that raw params name; ``None`` if there is none."""
    found = _TARGETS.get(method)
    value: Any = params.get(found[0]) if found is not None and isinstance(params, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return value if isinstance(value, str) else None


def span_name(method: str, name: str | None, *, has_uri: bool = False) -> str:
    """Return ``{method} {tool or prompt}``; a URI only if ``has_uri``, because each URI would be a name of its own."""
    found = _TARGETS.get(method)
    if name is None or found is None or (found[0] == "uri" and not has_uri):
        return bounded(method)
    return bounded(f"{method} {name}")


def component_attributes(method: str, name: str | None) -> dict[str, Any]:
    """Return the attributes for the tool, prompt or URI of a request, with ``execute_tool`` for calls of tools."""
    found: dict[str, Any] = {}
    if name is not None and method in _TARGETS:
        key = _TARGETS[method][1]
        found[key] = bounded(mask_secrets(name)) if key == "mcp.resource.uri" else bounded(name)
    if method == "tools/call":
        found["gen_ai.operation.name"] = "execute_tool"
    return found


def network_attributes(kind: str) -> Mapping[str, str]:
    """Return the attributes of a transport by its kind; none for calls inside one process."""
    return _NETWORKS.get(kind, _NO_NETWORK)


def server_attributes(url: str) -> dict[str, Any]:
    """Return address and port of the server of an HTTP URL; nothing else of the URL, which may have secrets."""
    split = urlsplit(url)
    if split.hostname is None:
        return {}
    return {"server.address": split.hostname, "server.port": split.port or (443 if split.scheme == "https" else 80)}


def describes_failure(attributes: dict[str, Any], code: int | None, kind: str, *, is_server: bool) -> bool:
    """Add the attributes of a failed request, and return whether it counts as an error.

    Args:
        attributes: the attributes of a span or of a measurement.
        code: the code of the JSON-RPC error; ``None`` if there is none.
        kind: what it is called if it has no code, such as ``"timeout"``.
        is_server: whether this side answers the request: then an error of the caller is no error.
    """
    if code is not None:
        attributes["rpc.response.status_code"] = str(code)
        if is_server and code in CALLER_ERRORS:
            return False
    attributes["error.type"] = kind if code is None else str(code)
    return True


def session_hash(session_id: str) -> str:
    """Return what spans have in place of a session's id, with which others could use the session; as in the audit."""
    return hmac.new(b"ferrule session", session_id.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:16]
