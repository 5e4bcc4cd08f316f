"""The table: each decision on each surface has the same answer and the same record, and writes no secret.

The row of Django under WSGI is in ``tests/django/scenarios/test_decisions.py``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.client.gateway.gateway import Gateway
from ferrule.expose import expose
from ferrule.transports.stdio.client import StdioServer
from tests.app.middleware.scenarios.decisions import (
    DECISIONS,
    TOKEN,
    add_tools,
    judge,
    middleware_for,
    search_for_secrets,
)
from tests.cli.gateway.support import served

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[4]


def server(decision: str, folder: Path, **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("table", middleware=middleware_for(decision, folder), **options)
    add_tools(app, folder)
    return app


@asynccontextmanager
async def in_process(decision: str, folder: Path) -> AsyncIterator[tuple[Client, str]]:
    async with Client(server(decision, folder)) as client:
        yield client, ""


@asynccontextmanager
async def stdio(decision: str, folder: Path) -> AsyncIterator[tuple[Client, str]]:
    arguments = ["-m", "tests.app.middleware.scenarios.decisions", decision, str(folder)]
    target = StdioServer(sys.executable, arguments, cwd=str(ROOT))
    async with Client(target) as client:
        yield client, ""


@asynccontextmanager
async def http(decision: str, folder: Path, mode: str) -> AsyncIterator[tuple[Client, str]]:
    auth = ResourceServer(StaticTokens({TOKEN: {"subject": "ada"}}), resource="http://127.0.0.1/mcp")
    app = server(decision, folder, auth=auth, store=f"sqlite:///{folder}/store.db")
    async with served(app) as (url,), Client(url, mode=mode, auth=TOKEN) as client:
        yield client, ""


@asynccontextmanager
async def gateway(decision: str, folder: Path) -> AsyncIterator[tuple[Client, str]]:
    behind: MCPServer[Any] = MCPServer("behind")
    add_tools(behind, folder)
    front = Gateway({"one": behind}, server_middleware=middleware_for(decision, folder), open_s=60, moment_s=60)
    async with Client(front.server) as client:
        yield client, "one_"


@asynccontextmanager
async def exposed(decision: str, folder: Path) -> AsyncIterator[tuple[Client, str]]:
    import asyncio

    from fastapi import FastAPI, HTTPException, Query

    api = FastAPI(generate_unique_id_function=lambda route: route.name)
    hidden: Any = Query(json_schema_extra={"writeOnly": True})

    @api.get("/work")
    def work(city: str, pin: str = hidden) -> str:
        return city

    @api.get("/closed")
    def closed(city: str, pin: str = hidden) -> str:
        return city

    @api.get("/fails")
    def fails(city: str, pin: str = hidden) -> str:
        raise HTTPException(500, "the body has failed")

    @api.get("/slow")
    async def slow(city: str, pin: str = hidden) -> str:
        (folder / "began").touch()
        await asyncio.sleep(1000)
        return city

    app = expose(api, include="*", server={"middleware": middleware_for(decision, folder)})
    async with Client(app) as client:
        yield client, ""


SURFACES = {
    "in process": in_process,
    "stdio": stdio,
    "HTTP, modern": lambda decision, folder: http(decision, folder, "2026-07-28"),
    "HTTP, legacy": lambda decision, folder: http(decision, folder, "2025-11-25"),
    "gateway": gateway,
    "exposed API": exposed,
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("decision", DECISIONS)
async def test_each_decision_on_each_surface(
    decision: str,
    surface: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    row = DECISIONS[decision]
    async with SURFACES[surface](decision, tmp_path) as (client, prefix):
        await judge(row, client, prefix + row.tool, tmp_path)
    out, err = capfd.readouterr()
    search_for_secrets(tmp_path, caplog.text, out, err)
