"""An authorization server for trying things out: one user, who consents to everything. Not for production.

Run it as ``python issuer.py --port 9100``. In production your identity provider takes its place.
"""

from __future__ import annotations

import argparse

from ferrule.auth import DemoIssuer, MemoryProvider
from ferrule.transports.hosting.uvicorn_server import run_http

SCOPES = ("drawers:read", "drawers:write", "offline_access")


def make_issuer(url: str, *, access_ttl_s: float = 3600.0) -> DemoIssuer:
    """The authorization server; any client may register."""
    return DemoIssuer(url, MemoryProvider("ada"), scopes=SCOPES, access_ttl_s=access_ttl_s)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9100)
    arguments = parser.parse_args()
    run_http(make_issuer(f"http://localhost:{arguments.port}"), port=arguments.port)
