"""Connects to a server in every revision, and checks its responses."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from ferrule.cli.doctor.findings import Report
from ferrule.protocol.errors import FerruleError, MCPError
from ferrule.wire.revisions import REVISIONS

__all__ = ["NoiseLog", "collect_noise", "try_revisions", "why"]


def why(error: BaseException) -> str:
    """Return a sentence that describes an exception."""
    text = str(error) or type(error).__name__
    return text if len(text) < 600 else f"{text[:600]} …"


class NoiseLog(logging.Handler):
    """Keeps the log messages of the stdio client about malformed output of the server."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.lines.append(record.getMessage())


@contextmanager
def collect_noise() -> Generator[NoiseLog]:
    """Collect messages about the server's stdout instead of printing them."""
    logger = logging.getLogger("ferrule.client.stdio")
    heard = NoiseLog()
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(heard)
    try:
        yield heard
    finally:
        logger.removeHandler(heard)
        logger.propagate = propagates


async def try_revisions(report: Report, target: Any, options: Mapping[str, Any], *, transport: str) -> list[str]:
    """Connect, list and close in every revision, newest first; return the revisions that worked."""
    from ferrule.client.client import Client

    worked: list[str] = []
    reasons: dict[str, str] = {}
    for version in reversed(list(REVISIONS)):
        started = time.monotonic()
        try:
            async with Client(target, **dict[str, Any](options, mode=version, cache=False)) as client:
                spoken = client.protocol_version
                if spoken != version:
                    reasons[version] = f"it answers with {spoken}"
                    continue
                tools = await _count_tools(client)
                name = client.server_info.name if client.server_info is not None else "a server without a name"
                took_s = time.monotonic() - started
                report.add(
                    "era-works",
                    "ok",
                    f"{version} over {transport}: {name}, {tools}, {took_s:.2f} s",
                    revision=version,
                    transport=transport,
                    seconds=round(took_s, 3),
                )
                worked.append(version)
        except (FerruleError, MCPError, OSError, TimeoutError) as error:
            reasons[version] = why(error)
    _report_others(report, worked, reasons, transport)
    return worked


async def _count_tools(client: Any) -> str:
    """Return the number of tools as text; `examine_tools` reports tools that cannot be listed."""
    if client.server_capabilities.tools is None:
        return "no tools"
    try:
        count = len(await client.list_tools())
        return "1 tool" if count == 1 else f"{count} tools"
    except (FerruleError, MCPError):
        return "its tools cannot be listed"


def _report_others(report: Report, worked: list[str], reasons: dict[str, str], transport: str) -> None:
    if not worked:
        newest = next(iter(reasons.values()), "nothing answered")
        report.add(
            "no-era",
            "fail",
            f"no revision works over {transport}: {newest}",
            "Is it an MCP server? See what it says with: ferrule trace",
            reasons=reasons,
        )
        return
    if reasons:
        report.add(
            "era-missing",
            "note",
            f"not spoken over {transport}: {', '.join(reasons)}",
            reasons=reasons,
        )
    if not any(REVISIONS[version].is_modern for version in worked):
        report.add("legacy-only", "note", "it speaks the handshake era only; clients of the modern era fall back to it")
    elif all(REVISIONS[version].is_modern for version in worked):
        report.add(
            "modern-only",
            "warn",
            "it speaks the modern era only: hosts of before July 2026 cannot use it",
            "Put `ferrule run` in front of it for them.",
        )


async def examine_tools(report: Report, target: Any, options: Mapping[str, Any]) -> None:
    """Report problems of the names and schemas of tools, once, in the first era that works."""
    from ferrule.app.signatures.schema_profile import schema_problems
    from ferrule.checks.rules.names import name_problems
    from ferrule.client.client import Client

    try:
        async with Client(target, **options) as client:
            if client.server_capabilities.tools is None:
                return
            tools = await client.list_tools()
    except (FerruleError, MCPError, OSError) as error:
        report.add(
            "tools-unlisted", "fail", f"it announces tools and cannot list them: {why(error)}",
            "One bad tool is often enough: see the server's log.",
        )  # fmt: skip
        return
    bad_names = {tool.name: found for tool in tools if (found := name_problems(tool.name))}
    if bad_names:
        first = next(iter(bad_names))
        report.add(
            "tool-names", "warn",
            f"{len(bad_names)} tool names that hosts refuse, such as {first!r}: {bad_names[first][0]}",
            "Rename them: letters, digits, _ and -, 48 characters at most.", names=bad_names,
        )  # fmt: skip
    problems = {tool.name: found for tool in tools if (found := schema_problems(dict(tool.input_schema)))}
    if problems:
        first = next(iter(problems))
        report.add(
            "tool-schemas", "warn",
            f"{len(problems)} tools with schemas that some model APIs refuse, such as {first!r}: {problems[first][0]}",
            "See all with: ferrule inspect", problems=problems,
        )  # fmt: skip
