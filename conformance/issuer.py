"""The authorization server under test: ``python conformance/issuer.py --port 0 --redirect-uri URL``."""

from __future__ import annotations

import argparse
import asyncio
import socket

from ferrule.app.authorization.guards import fetch_alone
from ferrule.auth import DemoIssuer, MemoryProvider, RegisteredClient
from ferrule.transports.hosting.uvicorn_server import serve_http

GRANTS = ("authorization_code", "refresh_token")


def clients(redirect_uri: str) -> tuple[RegisteredClient, ...]:
    """A public client and a confidential one."""
    return (
        RegisteredClient("public", None, (redirect_uri,), "Public", GRANTS),
        RegisteredClient("confidential", "its-secret", (redirect_uri,), "Confidential", GRANTS, "client_secret_basic"),
    )


async def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--redirect-uri", required=True)
    parser.add_argument("--confidential", action="store_true", help="publish no method for public clients")
    arguments = parser.parse_args()
    sock = socket.socket()
    sock.bind(("127.0.0.1", arguments.port))
    sock.listen()
    url = f"http://localhost:{sock.getsockname()[1]}"
    issuer = DemoIssuer(url, MemoryProvider(clients=clients(arguments.redirect_uri)), fetch=fetch_alone)
    if arguments.confidential:  # the suite prefers "none" where it is published, also for a client with a secret
        issuer.settings.methods = ("client_secret_basic", "client_secret_post")
    print(f"serving {url}", flush=True)
    await serve_http(issuer, sockets=[sock], handle_signals=True)


if __name__ == "__main__":
    asyncio.run(main())
