"""A server for the tests of agent libraries, and a stub of a provider that answers with recorded messages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ferrule import Image, MCPServer

__all__ = ["Stub", "make_server", "stub_of"]


def make_server() -> MCPServer[Any]:
    """A server with a tool for each kind of result."""
    app = MCPServer("calculator")

    @app.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @app.tool
    def picture() -> Image:
        """A picture."""
        return Image(b"\x89PNG\r\n", mime_type="image/png")

    @app.tool
    def fail(config: str) -> str:
        """Fail."""
        from ferrule import ToolError

        raise ToolError(f"no {config}")

    return app


class Stub:
    """What a stub got, and where it is.

    Attributes:
        url: its address.
        requests: path and decoded body of each request.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[tuple[str, Any]] = []


@contextmanager
def stub_of(*responses: Any) -> Iterator[Stub]:
    """A server on the loopback interface that answers each POST with the next response, and then with an error."""
    left = list(responses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            stub.requests.append((self.path, json.loads(body)))
            status, answer = (200, left.pop(0)) if left else (400, {"error": {"message": "no more", "type": "stub"}})
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub = Stub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
