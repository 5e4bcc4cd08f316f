"""A gateway in front of the server under test: ``python conformance/gateway.py URL [--behind legacy|auto]``.

The suite asks for tools by their names, so this gateway puts no prefix before those of its only server.
"""

from __future__ import annotations

import argparse

from ferrule import Gateway
from ferrule.client.gateway.upstreams.settings import UpstreamSettings

parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("url")
parser.add_argument("--behind", choices=["auto", "legacy"], default="auto", help="the era between the two")
parser.add_argument("--port", type=int, default=0)

if __name__ == "__main__":
    options = parser.parse_args()
    gateway = Gateway(
        {"server": options.url},
        settings={"server": UpstreamSettings(prefix="")},
        open_s=30,
        moment_s=30,
        mode=options.behind,
    )
    gateway.run(
        "http",
        host="localhost",
        port=options.port,
        retry_ms=100,
        on_started=lambda host, port: print(f"serving http://{host}:{port}/mcp", flush=True),
    )
