"""A Django project as a server."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from django.test import AsyncClient, Client


def post(method: str, params: dict[str, Any], token: str | None = None) -> Any:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **({"mcp-name": params["name"]} if "name" in params else {}),
        **({} if token is None else {"authorization": f"Token {token}"}),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return Client().post("/mcp/", json.dumps(body), content_type="application/json", headers=headers)


def test_a_request_without_credentials_is_refused_with_a_challenge() -> None:
    answer = post("tools/list", {})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Token"


def test_views_and_functions_are_tools(alice: Any) -> None:
    answer = post("tools/list", {}, alice.token)
    names = [tool["name"] for tool in answer.json()["result"]["tools"]]
    assert "count_invoices" in names
    assert "invoice_list" in names
    assert "invoice_purge" not in names


def test_a_call_runs_the_view_as_the_user(alice: Any) -> None:
    post("tools/call", {"name": "invoice_create", "arguments": {"title": "a", "amount": "3.50"}}, alice.token)
    found = post("tools/call", {"name": "invoice_list", "arguments": {}}, alice.token).json()
    assert found["result"]["structuredContent"]["results"][0]["title"] == "a"


def test_functions_run_in_the_thread_of_the_request(alice: Any) -> None:
    threads: list[str] = []

    from ferrule.django import mcp

    @mcp.tool
    def where() -> str:
        """Return the thread."""
        threads.append(threading.current_thread().name)
        return threads[-1]

    try:
        for _ in range(20):
            post("tools/call", {"name": "where", "arguments": {}}, alice.token)
    finally:
        mcp.remove_tool("where")
    assert set(threads) == {threading.current_thread().name}


async def asgi_post(method: str, params: dict[str, Any], token: str) -> Any:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 1,
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **({"mcp-name": params["name"]} if "name" in params else {}),
        "authorization": f"Token {token}",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return await AsyncClient().post("/mcp/", json.dumps(body), content_type="application/json", headers=headers)


def test_the_same_url_streams_under_asgi(alice: Any) -> None:
    from ferrule import Context
    from ferrule.django import mcp

    @mcp.tool
    async def slow(ctx: Context) -> str:
        """Report progress."""
        await ctx.progress(1, 2)
        return "done"

    async def talk() -> tuple[Any, Any, bytes]:
        listed = await asgi_post("tools/list", {}, alice.token)
        called = await asgi_post("tools/call", {"name": "invoice_list", "arguments": {}}, alice.token)
        streamed = await asgi_post("tools/call", {"name": "slow", "arguments": {}}, alice.token)
        return listed, called, b"".join([part async for part in streamed.streaming_content])

    try:
        listed, called, streamed = asyncio.run(talk())
    finally:
        mcp.remove_tool("slow")
    assert "invoice_list" in {tool["name"] for tool in listed.json()["result"]["tools"]}
    assert called.json()["result"]["structuredContent"]["count"] == 0
    assert b"notifications/progress" in streamed
    assert b'"done"' in streamed


def test_a_program_calls_as_a_user(alice: Any) -> None:
    from ferrule import Client
    from ferrule.django import mcp

    async def talk() -> tuple[set[str], Any]:
        async with Client(mcp) as client:
            made = await client.call_tool("invoice_create", {"title": "b", "amount": "1"})
            return {tool.name for tool in await client.list_tools()}, made

    with mcp.as_user(alice):
        names, made = asyncio.run(talk())
    assert made.structured_content["title"] == "b"
    assert "invoice_purge" not in names
