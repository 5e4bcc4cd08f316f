"""Calls of tools through a WSGI endpoint, without a server."""

from __future__ import annotations

from io import BytesIO
from json import dumps, loads
from typing import Any


def wsgi_call(
    endpoint: Any,
    name: str,
    headers: dict[str, str],
    path: str = "",
    host: str = "shop.example",
    script_name: str | None = None,
    **arguments: Any,
) -> str:
    """Call a tool by an endpoint, which is mounted at ``/mcp``, or at the root with a path; the text of its answer."""
    body = dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    ).encode()
    environ = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": ("" if path else "/mcp") if script_name is None else script_name,
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": host,
        "SERVER_PORT": "443",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_HOST": host,
        "HTTP_ACCEPT": "application/json, text/event-stream",
        "HTTP_MCP_PROTOCOL_VERSION": "2025-11-25",
        "wsgi.url_scheme": "https",
        "wsgi.input": BytesIO(body),
        **{f"HTTP_{key.upper()}": value for key, value in headers.items()},
    }
    answer = loads(b"".join(endpoint(environ, lambda status, headers, exc_info=None: None)))
    content = answer["result"]["content"][0]
    return str(content.get("text") or content["uri"])
