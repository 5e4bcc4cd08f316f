"""The dashboard asks for what is recorded: compared with what OpenTelemetry's exporter for Prometheus shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.prometheus")

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from ferrule import Client, MCPServer
from ferrule.integrations.opentelemetry import instrument
from ferrule.kernel.dispatch import TransportContext
from tests.integrations.opentelemetry.support import Telemetry

pytestmark = pytest.mark.anyio

DASHBOARD = Path(__file__).resolve().parents[4] / "docs" / "snippets" / "telemetry" / "dashboard.json"
NAME = re.compile(r"\b((?:mcp|ferrule)_(?:server|client)_\w+)")
LABELS = re.compile(r"(?:by|ignoring) \(([^)]*)\)|\{([^}]*)\}")
FROM_PROMETHEUS = {"le", "job"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def expressions() -> list[str]:
    """All queries of the dashboard."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [*found, *(each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query")]


def labels_of(expression: str) -> set[str]:
    """The labels that a query names."""
    found: set[str] = set()
    for grouped, matched in LABELS.findall(expression):
        found.update(part.strip() for part in grouped.split(",") if part.strip())
        found.update(re.findall(r'(\w+)\s*(?:=~|!=|=)\s*"', matched))
    return found


async def scraped() -> str:
    """The page of metrics of a program that has used everything."""
    registry = CollectorRegistry()
    telemetry = Telemetry(readers=[PrometheusMetricReader(registry=registry)])
    app = MCPServer("x")

    @app.tool(task="optional")
    async def work(fail: bool = False) -> str:
        if fail:
            raise ValueError("no")
        return "ok"

    instrument(app, **telemetry.providers)
    for mode in ("legacy", "auto"):
        async with instrument(Client(app, mode=mode), **telemetry.providers) as client:
            await client.call_tool("work", {"fail": True})
            await (await client.start_tool("work")).result(timeout_s=30)
    return generate_latest(registry).decode()


async def test_every_metric_and_label_of_the_dashboard_is_recorded() -> None:
    """A panel without data would be noticed only in the incident in which it is needed."""
    page = await scraped()
    exported = set(re.findall(r"^(\w+)(?:\{| )", page, re.MULTILINE))
    asked = {name for expression in expressions() for name in NAME.findall(expression)}
    assert asked - exported == set()
    durations = {name for name in exported if name.endswith("_duration_seconds_bucket")}
    assert durations - {re.sub("_(count|sum)$", "_bucket", name) for name in asked} == set(), "each has a panel"
    labels = set(re.findall(r'[{,](\w+)="', page)) | FROM_PROMETHEUS | {"server_address"}
    assert {label for expression in expressions() for label in labels_of(expression)} - labels == set()


def test_the_label_of_addresses_is_that_of_http() -> None:
    """Calls in one process, as above, have no address."""
    from ferrule.integrations.opentelemetry.conventions import network_attributes, server_attributes

    assert "server.address" in server_attributes("http://127.0.0.1:8000/mcp")
    assert network_attributes(TransportContext("direct").kind) == {}


def test_labels_of_a_query_are_found() -> None:
    """The test above can fail."""
    query: Any = 'sum by (le, other) (rate(mcp_server_x_count{job=~"$job", error_type!=""}[5m]))'
    assert labels_of(query) == {"le", "other", "job", "error_type"}
    assert NAME.findall(query) == ["mcp_server_x_count"]
