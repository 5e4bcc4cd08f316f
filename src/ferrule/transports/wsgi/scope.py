"""A WSGI request as the scope of an ASGI one."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["SCRIPT_NAME_KEY", "scope_of"]

SCRIPT_NAME_KEY = "ferrule.wsgi.script_name"
"""Key of a scope: prefix of the application that the endpoint stands beside."""


class _HeaderNames(dict[str, bytes]):
    """Header names by their keys in an environment."""

    def __missing__(self, key: str) -> bytes:
        name = key[5:].replace("_", "-").lower().encode("latin-1")
        if len(self) < _MAX_NAMES and len(key) <= _MAX_NAME_CHARS:  # bounded, because clients choose the names
            self[key] = name
        return name


_MAX_NAMES: Final = 256
_MAX_NAME_CHARS: Final = 64
_NAMES = _HeaderNames()


def scope_of(environ: dict[str, Any]) -> dict[str, Any]:
    """Return the ASGI scope (ASGI 3, HTTP) of the environment of a request (PEP 3333)."""
    headers: list[tuple[bytes, bytes]] = []
    for key, value in environ.items():
        if key[:5] == "HTTP_":  # no method: it would be called for each of many keys
            headers.append((_NAMES[key], str(value).encode("latin-1")))
        elif key in ("CONTENT_TYPE", "CONTENT_LENGTH") and value:
            headers.append((_NAMES[f"HTTP_{key}"], str(value).encode("latin-1")))
    root = environ.get("SCRIPT_NAME", "").encode("latin-1").decode("utf-8", "replace")
    path = environ.get("PATH_INFO", "").encode("latin-1").decode("utf-8", "replace")
    address = environ.get("REMOTE_ADDR")
    port, own_port = str(environ.get("REMOTE_PORT", "")), str(environ.get("SERVER_PORT", ""))  # none on a Unix socket
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": environ["REQUEST_METHOD"],
        "scheme": environ.get("wsgi.url_scheme", "http"),
        "path": root + path,
        "raw_path": (root + path).encode(),
        "root_path": root,
        "query_string": environ.get("QUERY_STRING", "").encode("latin-1"),
        "headers": headers,
        "client": None if not address else (address, int(port) if port.isdigit() else 0),
        "server": (environ.get("SERVER_NAME", ""), int(own_port) if own_port.isdigit() else 0),
    }
