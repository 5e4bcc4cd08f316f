"""What the table of decisions is made of: a server, its middleware for each decision, and what must come of a call."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ferrule import Client, MCPError, MCPServer, Secret
from ferrule.middleware import AccessRequest, Audit, AuditFile, Deny, Policy, Quota

SECRET = "hunter2-which-nobody-may-write"
"""The value of a secret argument in every call of the table."""
TOKEN = "token-which-nobody-may-write"
"""The token of every request over HTTP."""

Pin = Secret[str]


@dataclass(frozen=True)
class Decision:
    """One row of the table.

    Attributes:
        name: of the row.
        tool: the tool that is called.
        calls: how often; the last answer counts.
        answer: ``"ok"``, ``"error"`` for a result with ``isError``, the code of an error, or ``"cancelled"``.
        records: decision and outcome of each record.
        options: of `middleware_of`.
    """

    name: str
    tool: str
    answer: Any
    records: list[tuple[str, str]]
    calls: int = 1
    options: dict[str, Any] = field(default_factory=dict[str, Any])


DECISIONS = {
    each.name: each
    for each in (
        Decision("allowed", "work", "ok", [("allowed", "ok")]),
        Decision("denied", "closed", -32602, [("denied", "refused")]),
        Decision("dry run", "closed", "ok", [("allowed", "ok")], options={"dry_run": True}),
        Decision("over quota", "work", 429, [("allowed", "ok"), ("over_quota", "refused")], calls=2),
        Decision("sink fails, refuse", "work", -32603, [], options={"inside": "missing"}),
        Decision("sink fails, continue", "work", "ok", [], options={"inside": "missing", "on_failure": "continue"}),
        Decision("failed", "fails", "error", [("allowed", "failed")]),
        Decision("cancelled", "slow", "cancelled", [("allowed", "cancelled")]),
    )
}


def nothing_closed(request: AccessRequest) -> Any:
    return Deny("closed for the table") if request.name.endswith("closed") else None


def middleware_of(
    decision: str, folder: Path, *, dry_run: bool = False, on_failure: Any = "refuse", **more: Any
) -> list[Any]:
    """Return the middleware of a row."""
    return [
        Audit(
            AuditFile(folder / more.get("inside", "") / "audit.jsonl"),
            on_failure=on_failure,
            arguments=["city", "pin"],
            key=b"the key of the table",
            chain=True,
        ),
        Quota(1, window_s=10_000, per="tool"),
        Policy(nothing_closed, dry_run=dry_run),
    ]


def middleware_for(decision: str, folder: Path) -> list[Any]:
    return middleware_of(decision, folder, **DECISIONS[decision].options)


def add_tools(app: MCPServer[Any], folder: Path) -> None:
    """Add the tools of the table to a server."""

    @app.tool
    def work(city: str, pin: Pin) -> str:
        return city

    @app.tool
    def closed(city: str, pin: Pin) -> str:
        return city

    @app.tool
    def fails(city: str, pin: Pin) -> str:
        raise RuntimeError(f"the body has failed with {pin!r}")

    @app.tool
    async def slow(city: str, pin: Pin) -> str:
        (folder / "began").touch()
        await asyncio.sleep(1000)
        return city


async def outcome_of(client: Client, name: str) -> Any:
    """Return what a client gets of a call, in the words of `Decision.answer`; check that it names no secret."""
    try:
        result = await client.call_tool(name, {"city": "Oslo", "pin": SECRET}, raise_on_error=False)
    except MCPError as error:
        said, code = f"{error} {error.data}", error.code
    else:
        said, code = str(result), "error" if result.is_error else "ok"
    assert SECRET not in said
    assert "closed for the table" not in said
    return code


async def answer_of(client: Client, decision: Decision, name: str, folder: Path) -> Any:
    """Return the last answer of the calls of a row."""
    if decision.answer != "cancelled":
        found: Any = None
        for _ in range(decision.calls):
            found = await outcome_of(client, name)
        return found
    calling = asyncio.ensure_future(outcome_of(client, name))
    await until(lambda: (folder / "began").exists() or calling.done())
    calling.cancel()
    return "cancelled" if (await asyncio.gather(calling, return_exceptions=True))[0] is not None else None


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until something is true, at most a minute."""
    ends_at = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.01)


def records_in(folder: Path) -> list[dict[str, Any]]:
    path = folder / "audit.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


async def judge(decision: Decision, client: Client, name: str, folder: Path) -> None:
    """Make the calls of a row, and compare answers and records."""
    assert await answer_of(client, decision, name, folder) == decision.answer
    await judge_records(decision, name, folder)


async def judge_records(decision: Decision, name: str, folder: Path) -> None:
    """Compare the records of a row."""
    if decision.records:
        await until(lambda: len(records_in(folder)) >= len(decision.records))
    records = records_in(folder)
    assert [(each["decision"], each["outcome"]) for each in records] == decision.records
    assert all(each["member"] == name and each["arguments"] == {"city": "Oslo"} for each in records)
    assert all(each.get("would_deny") == ["closed for the table"] for each in records) or decision.name != "dry run"
    assert all(each.get("reason") == "closed for the table" for each in records) or decision.name != "denied"


def search_for_secrets(folder: Path, *texts: str, secrets: Iterable[str] = (SECRET, TOKEN)) -> None:
    """Check that no secret is in any file below a folder, and in none of the texts.

    Files are searched as bytes, so that databases and recordings count like logs.
    """
    for secret in secrets:
        found = [str(path) for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert found == []
        assert not any(secret in text for text in texts)


def serve_stdio(decision: str, folder: Path) -> None:
    """Serve the table's server over stdin and stdout; the log goes to a file."""
    logging.basicConfig(filename=folder / "log.txt", level=logging.DEBUG)
    app: MCPServer[Any] = MCPServer("table", middleware=middleware_for(decision, folder))
    add_tools(app, folder)
    app.run()


Use = Callable[[Client], Awaitable[None]]

if __name__ == "__main__":
    serve_stdio(sys.argv[1], Path(sys.argv[2]))
