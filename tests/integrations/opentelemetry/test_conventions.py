"""The tables of the conventions as facts, and what servers and clients record beside them.

The facts are of ``docs/gen-ai/mcp.md`` and ``model/mcp/*.yaml`` of open-telemetry/semantic-conventions-genai 0.1.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from ferrule import Client, MCPServer
from ferrule.integrations.opentelemetry import conventions, instrument
from ferrule.protocol.errors import MCPError, RemoteError
from ferrule.transports.hosting.uvicorn_server import serve_http
from tests.integrations.opentelemetry.support import Telemetry

pytestmark = pytest.mark.anyio

REQUIRED, CONDITIONAL, RECOMMENDED, OPT_IN = "required", "conditionally required", "recommended", "opt-in"

# Attribute → (requirement level, type). `gen_ai.prompt.variable` stands for all names that begin so.
COMMON = {
    "mcp.method.name": (REQUIRED, str),
    "error.type": (CONDITIONAL, str),
    "gen_ai.prompt.name": (CONDITIONAL, str),
    "gen_ai.tool.name": (CONDITIONAL, str),
    "rpc.response.status_code": (CONDITIONAL, str),
    "gen_ai.operation.name": (RECOMMENDED, str),
    "jsonrpc.protocol.version": (RECOMMENDED, str),
    "mcp.protocol.version": (RECOMMENDED, str),
    "network.protocol.name": (RECOMMENDED, str),
    "network.protocol.version": (RECOMMENDED, str),
    "network.transport": (RECOMMENDED, str),
}
OF_SERVER = {"server.address": (RECOMMENDED, str), "server.port": (RECOMMENDED, int)}
OF_CLIENT = {"client.address": (RECOMMENDED, str), "client.port": (RECOMMENDED, int)}
OF_SPANS = {
    **COMMON,
    "jsonrpc.request.id": (CONDITIONAL, str),
    "mcp.resource.uri": (CONDITIONAL, str),
    "mcp.session.id": (RECOMMENDED, str),
    "gen_ai.tool.call.arguments": (OPT_IN, str),  # "any"; JSON where a structured form is not supported
    "gen_ai.tool.call.result": (OPT_IN, str),
    "gen_ai.prompt.variable": (OPT_IN, str),
}
SPANS = {"CLIENT": {**OF_SPANS, **OF_SERVER}, "SERVER": {**OF_SPANS, **OF_CLIENT}}
OF_OPERATIONS = {**COMMON, "mcp.resource.uri": (OPT_IN, str)}
OF_SESSIONS = {
    name: COMMON[name]
    for name in (
        "error.type",
        "jsonrpc.protocol.version",
        "mcp.protocol.version",
        "network.protocol.name",
        "network.protocol.version",
        "network.transport",
    )
}
METRICS = {
    "mcp.client.operation.duration": {**OF_OPERATIONS, **OF_SERVER},
    "mcp.server.operation.duration": OF_OPERATIONS,
    "mcp.client.session.duration": {**OF_SESSIONS, **OF_SERVER},
    "mcp.server.session.duration": OF_SESSIONS,
}
BOUNDARIES_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
OURS = {"mcp.result.type", "ferrule.task.id"}
"""What the conventions have no names for."""

TRANSPORTS = ("pipe", "quic", "tcp", "udp", "unix")


def offences(attributes: Any, table: dict[str, tuple[str, type]]) -> list[str]:
    """What attributes have that the table does not allow, and what it requires and they lack."""
    found: list[str] = []
    for name, value in attributes.items():
        key = "gen_ai.prompt.variable" if name.startswith("gen_ai.prompt.variable.") else name
        if key in OURS:
            continue
        if key not in table:
            found.append(f"{name} is not in the table")
        elif type(value) is not table[key][1] or (name == "network.transport" and value not in TRANSPORTS):
            found.append(f"{name} is {value!r}")
    missing = [name for name, (level, _) in table.items() if level == REQUIRED and name not in attributes]
    return found + [f"{name} is missing" for name in missing]


def app() -> MCPServer:
    made = MCPServer("x")

    @made.tool
    async def work(how: str = "") -> str:
        if how == "raise":
            raise ValueError("no")
        if how == "code":
            raise MCPError("Furnace 3 is cold", code=-32050)
        return "ok"

    @made.prompt
    def ask(topic: str) -> str:
        return topic

    @made.resource("metal://{name}")
    def metal(name: str) -> str:
        return name

    return made


async def use(client: Client) -> None:
    """Successes and failures of all kinds of requests."""
    await client.list_tools()
    await client.call_tool("work")
    await client.call_tool("work", {"how": "raise"})
    for name, arguments in (("work", {"how": "code"}), ("nothing", {})):
        with pytest.raises(RemoteError):
            await client.call_tool(name, arguments)
    await client.get_prompt("ask", {"topic": "brass"})
    await client.read_resource("metal://brass")


@pytest.fixture(params=["legacy", "auto"])
async def recorded(request: pytest.FixtureRequest, anyio_backend: Any) -> Telemetry:
    """What both sides record over real HTTP, with everything that can be asked for."""
    import asyncio

    telemetry = Telemetry()
    server = instrument(app(), payloads=True, **telemetry.providers)
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve_http(server.asgi(loopback=True), port=0, on_started=lambda host, port: bound.set_result(port))
    )
    try:
        url = f"http://127.0.0.1:{await bound}/mcp"
        async with instrument(Client(url, mode=request.param), payloads=True, **telemetry.providers) as client:
            await use(client)
    finally:
        serving.cancel()
        await asyncio.wait([serving])
    return telemetry


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_spans_have_what_the_tables_allow_and_require(recorded: Telemetry) -> None:
    """Attribute names, their types, the required ones, kinds and names of spans."""
    spans = recorded.spans()
    assert {span.kind.name for span in spans} == {"CLIENT", "SERVER"}
    assert [
        (span.name, span.kind.name, offence)
        for span in spans
        for offence in offences(span.attributes, SPANS[span.kind.name])
    ] == []
    assert {span.name for span in spans if "tools/call" in span.name} == {"tools/call work", "tools/call nothing"}
    assert recorded.spans("resources/read"), "never the URI"
    assert recorded.spans("prompts/get ask")


async def test_conditions_of_attributes_hold(recorded: Telemetry) -> None:
    """Each "conditionally required" and "recommended" attribute is where its condition is met, and nowhere else."""
    for span in recorded.spans():
        attributes = span.attributes
        method, is_client = attributes["mcp.method.name"], span.kind.name == "CLIENT"
        assert ("gen_ai.operation.name" in attributes) == (method == "tools/call")
        assert ("gen_ai.tool.name" in attributes) == (method == "tools/call")
        assert ("gen_ai.prompt.name" in attributes) == (method == "prompts/get")
        assert ("mcp.resource.uri" in attributes) == (method == "resources/read")
        assert attributes["jsonrpc.request.id"]
        assert (attributes["network.transport"], attributes["network.protocol.name"]) == ("tcp", "http")
        assert "mcp.protocol.version" in attributes or method == "initialize"
        assert ("server.address" in attributes, "client.address" in attributes) == (is_client, not is_client)
        has_session = attributes.get("mcp.protocol.version", "") < "2026"
        assert ("mcp.session.id" in attributes) == has_session
        # Not the id itself, which is 32 characters or more.
        assert not has_session or len(str(attributes["mcp.session.id"])) == 16
        assert ("error.type" in attributes) == (span.status.status_code.name == "ERROR")


async def test_failures_have_different_types(recorded: Telemetry) -> None:
    """A failed tool, a code of the server, and a mistake of the caller, which is an error on the client's side only."""

    def failures(kind: str, name: str) -> list[tuple[Any, Any, Any]]:
        return [
            (
                span.attributes.get("error.type"),
                span.attributes.get("rpc.response.status_code"),
                span.status.description,
            )
            for span in recorded.spans(name)
            if span.kind.name == kind
        ]

    for kind in ("CLIENT", "SERVER"):
        found = failures(kind, "tools/call work")
        assert found == [
            (None, None, None),
            ("tool_error", None, None),
            ("-32050", "-32050", "Furnace 3 is cold"),
        ]
    ((error, code, message),) = failures("CLIENT", "tools/call nothing")
    assert (error, code) == ("-32602", "-32602")
    assert message
    assert failures("SERVER", "tools/call nothing") == [(None, "-32602", None)]


async def test_metrics_have_what_the_tables_allow_and_require(recorded: Telemetry) -> None:
    """Names, units, bucket boundaries and attributes; no series for the name that the client has invented."""
    units = recorded.units()
    for name, table in METRICS.items():
        points = recorded.points(name)
        if name == "mcp.server.session.duration" and not points:
            continue  # the modern era has no sessions
        assert points, name
        assert units[name] == "s"
        for point in points:
            assert offences(point.attributes, table) == []
            assert tuple(point.explicit_bounds) == BOUNDARIES_S
    names = {point.attributes.get("gen_ai.tool.name") for point in recorded.points("mcp.server.operation.duration")}
    assert names == {"work", None}
    assert not any("mcp.resource.uri" in point.attributes for name in METRICS for point in recorded.points(name))


async def test_sessions_are_measured_on_both_sides(recorded: Telemetry) -> None:
    """One of the client; one of the server in the handshake era."""
    (mine,) = recorded.points("mcp.client.session.duration")
    assert (mine.count, "error.type" in mine.attributes) == (1, False)
    theirs = recorded.points("mcp.server.session.duration")
    assert [point.count for point in theirs] == ([1] if mine.attributes["mcp.protocol.version"] < "2026" else [])


async def test_the_two_sides_are_one_trace(recorded: Telemetry) -> None:
    """The server's span is the child of the client's, and both name the same request."""
    for span in recorded.spans("tools/call work"):
        if span.kind.name == "SERVER":
            (sent,) = [each for each in recorded.spans() if each.context.span_id == span.parent.span_id]
            assert sent.kind.name == "CLIENT"
            assert sent.attributes["jsonrpc.request.id"] == span.attributes["jsonrpc.request.id"]
            assert sent.attributes["gen_ai.tool.name"] == span.attributes["gen_ai.tool.name"]


def test_the_table_finds_what_is_wrong() -> None:
    """Another name, another type, a missing name: the test above can fail."""
    wrong: Iterable[dict[str, Any]] = ({"mcp.method": "x"}, {"mcp.method.name": 5}, {"network.transport": "http"})
    assert [len(offences(attributes, SPANS["SERVER"])) for attributes in wrong] == [2, 1, 2]


def test_one_version_is_pinned() -> None:
    """The facts above are of this version; a change of the version compares them with the tables of the next."""
    assert conventions.CONVENTIONS_VERSION == "0.1.0"
    assert conventions.BOUNDARIES_S == BOUNDARIES_S


@pytest.mark.parametrize(
    ("method", "name", "has_uri", "expected"),
    [
        ("tools/call", "melt", False, "tools/call melt"),
        ("prompts/get", "ask", False, "prompts/get ask"),
        ("resources/read", "metal://brass", False, "resources/read"),
        ("resources/read", "metal://brass", True, "resources/read metal://brass"),
        ("tools/list", None, False, "tools/list"),
        ("tools/call", None, False, "tools/call"),
    ],
)
def test_names_of_spans(method: str, name: str | None, has_uri: bool, expected: str) -> None:
    assert conventions.span_name(method, name, has_uri=has_uri) == expected


def test_what_peers_choose_is_bounded_and_masked() -> None:
    """A name of a megabyte, and a URI with a key."""
    assert len(conventions.span_name("tools/call", "x" * 1_000_000)) == conventions.MAX_TEXT
    assert len(conventions.component_attributes("tools/call", "x" * 1_000_000)["gen_ai.tool.name"]) == 512
    uri = conventions.component_attributes("resources/read", "x://y?key=ghp_" + "a1B2" * 10)["mcp.resource.uri"]
    assert uri == "x://y?key=(masked)"


def test_addresses_of_servers_have_no_more_of_the_url() -> None:
    """User, password, path and query stay out."""
    found = conventions.server_attributes("https://user:secret@mcp.example.com/path?token=secret")
    assert found == {"server.address": "mcp.example.com", "server.port": 443}
    assert conventions.server_attributes("http://[::1]:8000/")["server.port"] == 8000
