"""The last step of a request: a well-formed result of the connection's revision."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.kernel.connection import Connection
from ferrule.kernel.finish import check_result, finish_result
from ferrule.kernel.server import Server
from ferrule.protocol.errors import InternalError
from ferrule.types import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    ListToolsResult,
    Tool,
    ToolContentBlock,
    ToolExecution,
    ToolResult,
)
from ferrule.wire.codec import Encoded, encode, to_builtins
from ferrule.wire.revisions import REVISIONS
from tests.kernel.harness import FakeDispatch

STAMP = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "0"}}


def finished(version: str, method: str, result: Any) -> Any:
    """As `finish_result` on a connection of a revision."""
    if version == LATEST_MODERN_VERSION:
        connection = Connection.from_envelope(version, None, {})
    else:
        connection = Connection(FakeDispatch(), REVISIONS[version])
    return finish_result(Server("s"), connection, method, result)


TOOL = Tool("t", {"type": "object"}, title="T", execution=ToolExecution(task_support="optional"))


@pytest.mark.parametrize("as_struct", [True, False])
@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION])
def test_what_the_revision_lacks_is_left_out_of_structs_and_mappings(version: str, as_struct: bool) -> None:
    """Titles came with 2025-06-18; how a tool runs as a task was said in 2025-11-25 only."""
    listed = ListToolsResult(tools=[TOOL])
    before = encode(listed)
    (tool,) = to_builtins(finished(version, "tools/list", listed if as_struct else to_builtins(listed)))["tools"]
    assert ("title" in tool) == (version >= "2025-06-18")
    assert ("execution" in tool) == (version == "2025-11-25")
    assert encode(listed) == before, "the handler's own object was changed"


def test_ready_made_bytes_are_finished() -> None:
    """They were encoded for the revision."""
    ready = Encoded(b'{"tools":[]}')
    for version in ("2024-11-05", LATEST_MODERN_VERSION):
        assert finished(version, "tools/list", ready) is ready
        assert check_result(REVISIONS[version], "tools/list", ready, False) is ready


def test_nothing_is_an_empty_result() -> None:
    """`None` is the result of a handler without one."""
    assert finished("2025-11-25", "ping", None) == {}
    assert finished(LATEST_MODERN_VERSION, "x/own", None) == {"resultType": "complete", "_meta": STAMP}


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_a_legacy_result_has_no_result_type(version: str) -> None:
    """`complete` is what every legacy result is; any other kind cannot be said."""
    done = ToolResult(content=[ToolContentBlock("text", "a")], result_type="complete")
    assert to_builtins(finished(version, "tools/call", done)) == {"content": [{"type": "text", "text": "a"}]}
    for bad in ({"resultType": "input_required", "requestState": "s"}, {"resultType": 5}):
        with pytest.raises(InternalError):
            finished(version, "tools/call", bad)


def test_a_mapping_is_completed_in_a_copy() -> None:
    """A handler may return the same object again."""
    own: dict[str, Any] = {"content": [], "_meta": {"k": 1}}
    found = finished(LATEST_MODERN_VERSION, "tools/call", own)
    assert found == {"content": [], "resultType": "complete", "_meta": {**STAMP, "k": 1}}
    assert own == {"content": [], "_meta": {"k": 1}}
    assert finished(LATEST_MODERN_VERSION, "tools/call", {"content": [], "_meta": None})["_meta"] == STAMP


def test_a_result_of_an_extensions_method_is_the_extensions_affair() -> None:
    """Its shape is not the specification's, even if it brings back a method that is."""
    odd = {"anything": True}
    revision = REVISIONS["2025-11-25"]
    assert check_result(revision, "tools/list", odd, True) is odd
    with pytest.raises(InternalError):
        check_result(revision, "tools/list", odd, False)


@pytest.mark.parametrize("kind", ["a", "complete ", "zzz", "Complete"])
@pytest.mark.parametrize("as_struct", [True, False])
def test_a_kind_of_result_that_no_extension_has_is_a_fault_of_the_handler(kind: str, as_struct: bool) -> None:
    """The peer could not read it; what it was stands in the log."""
    result: Any = ToolResult(content=[], result_type=kind) if as_struct else {"content": [], "resultType": kind}
    with pytest.raises(InternalError):
        finished(LATEST_MODERN_VERSION, "tools/call", result)


class Unshowable(dict[str, Any]):
    def __repr__(self) -> str:
        raise ValueError("no repr")


def nested(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"resultType": "zzz", "content": "x" * 1_000_000}, "{'resultType': 'zzz', 'content': 'xxx"),
        ({"resultType": "zzz", "content": nested(5_000)}, ""),  # Python 3.13 can show it, 3.11 cannot
        (Unshowable(resultType="zzz"), "a Unshowable without a repr: ValueError"),
    ],
)
def test_a_result_that_cannot_be_sent_is_logged_in_short(
    result: Any, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The client may have chosen how large it is; that it cannot be shown changes nothing of the error."""
    with pytest.raises(InternalError):
        finished(LATEST_MODERN_VERSION, "tools/call", result)
    assert f"it was {shown}" in caplog.text
    assert len(caplog.text) < 2_500


@pytest.mark.parametrize("as_struct", [True, False])
def test_a_result_type_of_an_extension_needs_a_client_that_declares_the_extension(as_struct: bool) -> None:
    """Another client could do nothing with it."""
    server: Server[Any] = Server("s")
    server.add_extension("example.com/x", {}, result_types=["x"])
    result: Any = ToolResult(content=[], result_type="x") if as_struct else {"content": [], "resultType": "x"}  # type: ignore[arg-type]
    for capabilities in ({}, {"extensions": {}}, {"extensions": {"example.com/y": {}}}):
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, capabilities)
        with pytest.raises(InternalError):
            finish_result(server, connection, "tools/call", result)
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {"extensions": {"example.com/x": {}}})
    assert to_builtins(finish_result(server, connection, "tools/call", result))["resultType"] == "x"
