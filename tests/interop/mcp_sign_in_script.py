"""Runs inside the environment of the official ``mcp`` package: a client that signs in.

Usage: mcp_sign_in_script.py MODE URL. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Generator
from typing import Any

import httpx2  # pyright: ignore[reportMissingImports]
from mcp import Client  # pyright: ignore[reportMissingImports]
from mcp.client.streamable_http import streamable_http_client  # pyright: ignore[reportMissingImports]

challenges: list[str] = []


class SignIn(httpx2.Auth):
    """Sends the token that it has; gets one with the first challenge."""

    token: str | None = None

    def auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        if self.token is not None:
            request.headers["authorization"] = f"Bearer {self.token}"
        response = yield request
        if response.status_code == 401:
            challenges.append(response.headers["www-authenticate"])
            self.token = "good"
            request.headers["authorization"] = f"Bearer {self.token}"
            yield request


async def main(mode: str, url: str) -> None:
    async with (
        httpx2.AsyncClient(auth=SignIn(), timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=30) as client,
    ):
        found = [(await client.call_tool("it", {})).content[0].text for _ in range(2)]
        print(json.dumps({"protocol_version": client.protocol_version, "found": found, "challenges": challenges}))


asyncio.run(main(sys.argv[1], sys.argv[2]))
