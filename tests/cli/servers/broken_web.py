"""Web servers that are broken in one way each: broken_web.py KIND."""

from __future__ import annotations

import json
import sys
from typing import Any

from ferrule import MCPServer
from ferrule.protocol.errors import InternalError, MethodNotFound
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.hosting.uvicorn_server import run_http
from ferrule.transports.sse.server import SseEndpoint

app = MCPServer("broken")


@app.tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


KIND = sys.argv[1]
OPEN = {"allowed_hosts": ["*"], "allowed_origins": ["*"]}
OPTIONS: dict[str, dict[str, Any]] = {
    "open": OPEN,
    "modern": {"legacy": False, "loopback": True},
    "no-streams": {"loopback": True},
    "unlisted": {"loopback": True},
    "old-sse": {"loopback": True},
    "no-era": {"loopback": True},
}
if KIND == "no-streams":
    app.lowlevel.remove_request_handler("subscriptions/listen")


async def fail(ctx: Any) -> Any:
    """What a server does that trips over one of its own tools."""
    raise InternalError("one schema is broken")


async def unknown(ctx: Any) -> Any:
    """What servers of the handshake era say to a discovery."""
    raise MethodNotFound(ctx.method)


if KIND == "legacy-buffering":
    app.lowlevel.add_request_handler("server/discover", unknown)
    app.lowlevel.modern_versions = ()
if KIND == "unlisted":
    app.lowlevel.add_request_handler("tools/list", fail)
if KIND == "no-era":
    for method in ("initialize", "server/discover"):
        app.lowlevel.add_request_handler(method, fail)
endpoint: Any = app.asgi(**OPTIONS.get(KIND, {"loopback": True}))
if KIND == "old-sse":
    endpoint = SseEndpoint(app.lowlevel, HttpOptions(loopback=True))
base = ""


async def answer(send: Any, status: int, body: bytes, *headers: tuple[str, str]) -> None:
    raw = [(name.encode(), value.encode()) for name, value in (("content-type", "text/plain"), *headers)]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def buffering(scope: Any, receive: Any, send: Any) -> None:
    """Keep everything back until the end."""
    kept: list[Any] = []

    async def keep(message: Any) -> None:
        kept.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            for each in kept:
                await send(each)

    await endpoint(scope, receive, keep)


def document(path: str) -> Any:
    """The authorization documents of the 401 kinds."""
    if path.startswith("/.well-known/oauth-protected-resource"):
        return None if KIND == "401-bare" else {"resource": f"{base}/mcp", "authorization_servers": [f"{base}/as"]}
    if KIND == "401-no-issuer" or "/as" not in path:
        return None
    issuer = "http://127.0.0.1/other" if KIND == "401-stray" else f"{base}/as"
    return {"issuer": issuer, "authorization_endpoint": f"{base}/a", "token_endpoint": f"{base}/t"}


async def serve(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http" or KIND in OPTIONS:
        await endpoint(scope, receive, send)
    elif KIND == "no-cors":
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"origin"]
        await endpoint(scope, receive, send)
    elif KIND in ("buffering", "legacy-buffering"):
        await buffering(scope, receive, send)
    elif KIND == "page":
        await answer(send, 200, b"<html>Welcome</html>", ("content-type", "text/html"))
    elif KIND == "redirect":
        await answer(send, 307, b"", ("location", f"{base}/elsewhere"))
    elif KIND == "bad-gateway":
        await answer(send, 502, b"Bad Gateway")
    elif KIND == "crash":
        await answer(send, 500, b"Internal Server Error")
    elif KIND == "host":
        await answer(send, 421, b"Invalid Host header")
    elif KIND == "forbidden":
        await answer(send, 403, b"no")
    elif (found := document(scope["path"])) is not None:
        await answer(send, 200, json.dumps(found).encode(), ("content-type", "application/json"))
    elif scope["path"] == "/mcp":
        challenge = () if KIND == "401-bare" else (("www-authenticate", 'Bearer error="invalid_token"'),)
        await answer(send, 401, b"", *challenge)
    else:
        await answer(send, 404, b"")


def started(host: str, port: int) -> None:
    global base
    base = f"http://127.0.0.1:{port}"
    print(f"serving {base}/mcp", file=sys.stderr, flush=True)


run_http(serve, port=0, on_started=started, on_drain=endpoint.drain)
