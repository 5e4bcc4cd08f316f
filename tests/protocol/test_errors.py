"""One family of errors and the one boundary to JSON-RPC codes."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from msgspec import UNSET

from ferrule.protocol import errors
from ferrule.protocol.errors import (
    CapabilityNotDeclared,
    ConnectionClosed,
    FerruleError,
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalError,
    MCPError,
    MethodNotFound,
    MissingRequiredClientCapability,
    NoBackChannel,
    ParseError,
    RemoteError,
    RequestTimeout,
    ResourceNotFound,
    UnsupportedProtocolVersion,
    error_from_exception,
    sole_error,
)
from ferrule.wire.faults import ConvertError, DecodeError, EncodeError
from ferrule.wire.jsonrpc import InvalidMessage, JsonRpcError

FAMILY: list[tuple[MCPError, int, Any]] = [
    (ParseError("m"), -32700, UNSET),
    (InvalidRequest("m"), -32600, UNSET),
    (MethodNotFound("a/b"), -32601, "a/b"),
    (InvalidParams("m", data=None), -32602, None),
    (InternalError(), -32603, UNSET),
    (HeaderMismatch("m"), -32020, UNSET),
    (MissingRequiredClientCapability({"sampling": {}}), -32021, {"requiredCapabilities": {"sampling": {}}}),
    (UnsupportedProtocolVersion("x", ("a", "b")), -32022, {"supported": ["a", "b"], "requested": "x"}),
    (ResourceNotFound("a://b"), -32602, {"uri": "a://b"}),
    (ResourceNotFound("a://b", code=-32002), -32002, {"uri": "a://b"}),
    (MCPError("m", code=1234, data=[1]), 1234, [1]),
    (MCPError("m"), -32603, UNSET),
    (RemoteError("m", code=-1), -1, UNSET),
]


@pytest.mark.parametrize(("error", "code", "data"), FAMILY, ids=[type(row[0]).__name__ for row in FAMILY])
def test_an_mcp_error_has_its_code_message_and_data(error: MCPError, code: int, data: Any) -> None:
    """It is meant for the peer: they go out as they are."""
    assert isinstance(error, FerruleError)
    found = error_from_exception(error)
    assert found == error.to_error() == JsonRpcError(code, error.message, data)
    assert type(found.code) is int
    assert error.message in str(error)


LOCAL = [
    ConnectionClosed("m"),
    RequestTimeout("a/b", 1.5),
    NoBackChannel("m"),
    CapabilityNotDeclared({"roots": {}}),
    LocalError("m"),
]


@pytest.mark.parametrize("error", LOCAL, ids=lambda error: type(error).__name__)
def test_a_local_error_has_no_code_and_is_not_sent(error: LocalError) -> None:
    """A time-out here must not pass for an answer from there."""
    assert isinstance(error, FerruleError)
    assert not isinstance(error, MCPError)
    assert not hasattr(error, "code")
    assert error_from_exception(error) == JsonRpcError(-32603, "Internal error")


@pytest.mark.parametrize(
    "error",
    [ValueError("secret"), KeyError("secret"), RecursionError("secret"), EncodeError("secret"), ConvertError("secret")],
)
def test_an_unexpected_exception_is_an_internal_error_without_detail(error: Exception) -> None:
    """The log has it; the peer does not."""
    assert error_from_exception(error) == JsonRpcError(-32603, "Internal error")


def test_unreadable_messages_have_their_own_codes() -> None:
    """Bytes, and shapes."""
    assert error_from_exception(DecodeError("m")) == JsonRpcError(-32700, "m")
    assert error_from_exception(InvalidMessage("m", id=1)) == JsonRpcError(-32600, "m")
    assert error_from_exception(InvalidMessage("m", code=-32602)) == JsonRpcError(-32602, "m")


def test_an_error_response_keeps_its_code_message_and_data() -> None:
    """Code, message and data, the difference between absent and null included."""
    for answered in (JsonRpcError(7, "m"), JsonRpcError(7, "m", None), JsonRpcError(-32000, "m", {"a": 1})):
        raised = RemoteError.from_error(answered)
        assert isinstance(raised, MCPError)
        assert raised.to_error() == answered


def test_errors_carry_their_facts() -> None:
    """Programs need not parse messages."""
    late = RequestTimeout("a/b", 1.5)
    assert (late.method, late.timeout_s) == ("a/b", 1.5)
    assert isinstance(late, TimeoutError)
    assert CapabilityNotDeclared({"roots": {}}).required == {"roots": {}}


@pytest.mark.parametrize("error", [row[0] for row in FAMILY] + LOCAL, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: FerruleError) -> None:
    """Process pools and test runners carry exceptions between processes."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert error_from_exception(copy) == error_from_exception(error)


def test_every_public_name_exists() -> None:
    """The list is what the root re-exports."""
    assert all(hasattr(errors, name) for name in errors.__all__)


def test_the_only_error_of_a_group_is_sent_itself() -> None:
    """A task group wraps whatever its only failing task raised."""
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [InvalidParams("no")])])
    assert error_from_exception(group).code == -32602
    assert sole_error(KeyError()).__class__ is KeyError


def test_several_errors_of_a_group_are_an_internal_error() -> None:
    """None of them can be chosen as the answer."""
    mixed = ExceptionGroup("outer", [InvalidParams("no"), ValueError("secret")])
    for group in (mixed, ExceptionGroup("deep", [mixed])):
        assert sole_error(group) is group
        assert error_from_exception(group).message == "Internal error"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MissingRequiredClientCapability({}), "This request needs a client that declares a capability"),
        (
            MissingRequiredClientCapability({"sampling": {}, "roots": {}}),
            "This request needs a client that declares roots, sampling",
        ),
        (CapabilityNotDeclared({}), "The client did not declare the capability"),
        (CapabilityNotDeclared({"sampling": {}, "roots": {}}), "The client did not declare roots, sampling"),
        (RequestTimeout("a/b", 1.5), "No answer to a/b within 1.5 s"),
        (
            RequestTimeout("a/b", 60, is_cap=True),
            "No answer to a/b within 60 s in all (max_total_s, which progress does not extend)",
        ),
        (InternalError(), "Internal error"),
        (ResourceNotFound("a://b"), "Resource not found"),
        (UnsupportedProtocolVersion("x", ()), "Unsupported protocol version"),
    ],
    ids=str,
)
def test_messages_name_what_is_missing_or_late(error: FerruleError, message: str) -> None:
    """An operator gets only the message; names are in alphabetical order."""
    assert str(error).partition(" [-")[0] == message
