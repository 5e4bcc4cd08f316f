"""The oracle must refuse wrong messages; otherwise it proves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.testing.oracle import Emitted, SchemaOracle, SchemaViolation
from tests.schemas import NO_SCHEMAS, SCHEMAS

pytestmark = pytest.mark.skipif(not SCHEMAS.is_dir(), reason=NO_SCHEMAS)

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


@pytest.fixture
def oracle() -> SchemaOracle:
    return SchemaOracle(SCHEMAS)


def _result(result: Any, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _error(code: int, id: Any = 1, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "m", **more}}


WRONG = {
    "result without its required member": ("2025-06-18", "server_to_client", _result({}), "tools/call"),
    "modern result without resultType": ("2026-07-28", "server_to_client", _result({"content": []}), "tools/call"),
    "modern list without cache hints": (
        "2026-07-28",
        "server_to_client",
        _result({"resultType": "complete", "tools": []}),
        "tools/list",
    ),
    "field of a newer revision": (
        "2025-03-26",
        "server_to_client",
        _result({"tools": [{"name": "n", "inputSchema": {"type": "object"}, "title": "N"}]}),
        "tools/list",
    ),
    "structured array in an older revision": (
        "2025-11-25",
        "server_to_client",
        _result({"content": [], "structuredContent": [1]}),
        "tools/call",
    ),
    "kind of a newer revision": (
        "2024-11-05",
        "server_to_client",
        _result({"content": [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]}),
        "tools/call",
    ),
    "uri that is none": (
        "2025-06-18",
        "server_to_client",
        _result({"resources": [{"uri": "no uri", "name": "n"}]}),
        "resources/list",
    ),
    "result id that is null": ("2025-11-25", "server_to_client", _result({}, None), "ping"),
    "response of a modern client": ("2026-07-28", "client_to_server", _result({"roots": []}), "roots/list"),
    "request of a modern server": (
        "2026-07-28",
        "server_to_client",
        {"jsonrpc": "2.0", "id": 1, "method": "roots/list"},
        None,
    ),
    "modern request without envelope": (
        "2026-07-28",
        "client_to_server",
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        None,
    ),
    "method of another revision": (
        "2024-11-05",
        "client_to_server",
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}},
        None,
    ),
    "notification in the wrong direction": (
        "2025-11-25",
        "server_to_client",
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        None,
    ),
    "notification without its params": (
        "2025-11-25",
        "server_to_client",
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}},
        None,
    ),
    "params of another revision": (
        "2024-11-05",
        "server_to_client",
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": 1, "progress": 1, "message": "m"},
        },
        None,
    ),
    "error without a message": (
        "2025-11-25",
        "server_to_client",
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1}},
        None,
    ),
    "unsupported version without data": ("2026-07-28", "server_to_client", _error(-32022), None),
    "retired code": ("2026-07-28", "server_to_client", _error(-32002), None),
    "reserved code": ("2026-07-28", "server_to_client", _error(-32050), None),
    "no jsonrpc": ("2025-11-25", "server_to_client", {"id": 1, "result": {}}, "ping"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_wrong_message_is_refused_and_not_counted(oracle: SchemaOracle, case: str) -> None:
    """Each rule once, so that a rule that stopped working is seen."""
    revision, direction, message, method = WRONG[case]
    with pytest.raises(SchemaViolation) as caught:
        oracle.observe(revision, direction, message, method=method)  # type: ignore[arg-type]
    assert caught.value.revision == revision
    assert caught.value.problems
    assert not oracle.emitted


RIGHT = {
    "unreadable request": ("2025-11-25", _error(-32700, None), None),
    "unreadable request, early schema": ("2024-11-05", _error(-32700, None), None),
    "own error code": ("2026-07-28", _error(1234, data=None), None),
    "legacy missing resource": ("2025-11-25", _error(-32002), None),
    "capability error": (
        "2026-07-28",
        _error(-32021, data={"requiredCapabilities": {"elicitation": {}}}),
        None,
    ),
    "fractions in a form": (
        "2026-07-28",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"resultType": "complete", "content": [], "structuredContent": None},
        },
        "tools/call",
    ),
    "result of an extension": ("2026-07-28", _result({"resultType": "task", "taskId": "t"}), "tools/call"),
    "task of 2025-11-25": (
        "2025-11-25",
        _result({"task": {"taskId": "t", "status": "working", "createdAt": "x", "lastUpdatedAt": "x", "ttl": None}}),
        "tools/call",
    ),
    "extension notification": ("2026-07-28", {"jsonrpc": "2.0", "method": "notifications/tasks", "params": {}}, None),
}


@pytest.mark.parametrize("case", list(RIGHT))
def test_a_right_message_passes(oracle: SchemaOracle, case: str) -> None:
    """The corners where a strict reading would refuse what the specification allows."""
    revision, message, method = RIGHT[case]
    oracle.observe(revision, "server_to_client", message, method=method)


def test_form_answers_may_be_fractions(oracle: SchemaOracle) -> None:
    """The generated schema says integer where schema.ts says number; the oracle follows schema.ts."""
    oracle.check("2026-07-28", "ElicitResult", {"action": "accept", "content": {"a": 1.5}})


def test_a_result_is_judged_by_the_request_that_was_seen(oracle: SchemaOracle) -> None:
    """A response does not name its method; ids repeat, so scopes separate connections."""
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "n"}}
    oracle.note("client_to_server", ask, scope="a")
    oracle.note("client_to_server", {**ask, "method": "ping"}, scope="b")
    oracle.observe("2025-11-25", "server_to_client", _result({}), scope="b")
    with pytest.raises(SchemaViolation):
        oracle.observe("2025-11-25", "server_to_client", _result({}), scope="a")
    assert oracle.emitted == {Emitted("2025-11-25", "ping", "server_to_client")}


def test_what_was_never_emitted_is_reported(oracle: SchemaOracle) -> None:
    """The check at the end of a session: Appendix A must have been written in every revision that has it."""
    missing = oracle.missing()
    assert Emitted("2024-11-05", "tools/call", "server_to_client") in missing
    assert Emitted("2024-11-05", "server/discover", "server_to_client") not in missing
    assert Emitted("2026-07-28", "server/discover", "server_to_client") in missing
    oracle.observe("2024-11-05", "server_to_client", _result({"content": []}), method="tools/call")
    assert Emitted("2024-11-05", "tools/call", "server_to_client") not in oracle.missing()
    assert Emitted("2025-11-25", "tasks/get", "server_to_client") not in oracle.missing(exempt={"tasks/get"})
    assert Emitted("2025-11-25", "notifications/initialized", "client_to_server") in oracle.missing(side="client")


def test_an_unknown_definition_is_a_mistake_of_the_caller(oracle: SchemaOracle) -> None:
    """A typing error must not pass for a valid value."""
    with pytest.raises(KeyError, match="Nothing"):
        oracle.check("2026-07-28", "Nothing", {})


def test_a_tap_collects_instead_of_raising(oracle: SchemaOracle) -> None:
    """Inside a server an exception would become -32603 and the test would stay green."""
    oracle.collect("2025-11-25", "server_to_client", _result({}), method="tools/call")
    oracle.collect("2025-11-25", "server_to_client", _result({}), method="ping")
    assert [violation.definition for violation in oracle.violations] == ["CallToolResult"]
    assert oracle.emitted == {Emitted("2025-11-25", "ping", "server_to_client")}
