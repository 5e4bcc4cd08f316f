"""One call through a client, a gateway, a server and a task, printed as the one trace that it is.

``python examples/one_trace.py``; needs ``ferrule[otel]`` and ``opentelemetry-sdk``. Each part has a service name of its
own, as if it ran on a machine of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ferrule import Client, MCPServer
from ferrule.client.gateway.gateway import Gateway
from ferrule.integrations.opentelemetry import instrument


def foundry() -> MCPServer:
    """Return a server with one tool, which runs as a task."""
    app = MCPServer("foundry")

    @app.tool(task="required")
    async def melt(metal: str) -> str:
        """Melt a metal."""
        return f"{metal} is liquid"

    return app


def service(name: str, exporter: InMemorySpanExporter) -> TracerProvider:
    """Return the tracer provider of one program."""
    provider = TracerProvider(resource=Resource({"service.name": name}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


def as_text(spans: list[ReadableSpan]) -> str:
    """Return the trees of spans: name, kind, service, and the links."""
    by_id: dict[int, ReadableSpan] = {_id(span): span for span in spans}
    lines: list[str] = []

    def add(span: ReadableSpan, depth: int) -> None:
        links = [by_id[link.context.span_id] for link in span.links]
        left = f"{'   ' * (depth - 1)}{'└─ ' if depth else ''}{span.name}"
        linked = "".join(f"   linked to: {link.name} {link.kind.name}" for link in links)
        lines.append(f"{left:<42}{span.kind.name:<10}{span.resource.attributes['service.name']}{linked}")
        children = [each for each in spans if each.parent is not None and each.parent.span_id == _id(span)]
        for child in sorted(children, key=lambda each: each.start_time or 0):
            add(child, depth + 1)

    for root in (span for span in spans if span.parent is None):
        add(root, 0)
    return "\n".join(lines)


def _id(span: ReadableSpan) -> int:
    context: Any = span.get_span_context()
    return context.span_id


def _trace(span: ReadableSpan) -> int:
    context: Any = span.get_span_context()
    return context.trace_id


async def trace_of_a_call(mode: str) -> str:
    """Call a tool that runs as a task, through a gateway, and return the trace."""
    app = foundry()
    exporter = InMemorySpanExporter()
    agent = service("agent", exporter)
    instrument(app, tracer_provider=service("foundry", exporter))
    gateway = instrument(Gateway({"foundry": app}, mode=mode), tracer_provider=service("gateway", exporter))
    client = instrument(Client(gateway, mode=mode), tracer_provider=agent)
    async with client:
        await client.list_tools()
        exporter.clear()
        with agent.get_tracer("example").start_as_current_span("answer the user"):
            handle = await client.start_tool("foundry_melt", {"metal": "brass"})
            result = await handle.result(timeout_s=30)
        assert result.text == "brass is liquid"
    spans = exporter.get_finished_spans()
    (root,) = (span for span in spans if span.name == "answer the user")
    polls = ("tasks/get", "tasks/result", "subscriptions/listen")  # how the client waits for the task
    return as_text([span for span in spans if _trace(span) == _trace(root) and span.name not in polls])


if __name__ == "__main__":
    for mode, revision in (("legacy", "2025-11-25"), ("auto", "2026-07-28")):
        print(revision)
        print(asyncio.run(trace_of_a_call(mode)))
