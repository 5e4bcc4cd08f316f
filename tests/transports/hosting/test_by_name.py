"""ferrule.transports.hosting.by_name: the table of the transports that ``run`` has by name."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.transports.hosting import running
from ferrule.transports.hosting.by_name import TRANSPORTS, transport_named


@pytest.mark.parametrize("function", [running.run, running.run_async, MCPServer.run, MCPServer.run_async])
def test_the_names_in_the_signature_are_those_of_the_table(function: Any) -> None:
    """A new transport is one entry and one name in four signatures, for editors."""
    hints: dict[str, Any] = function.__annotations__
    assert [repr(name) for name in TRANSPORTS] == [
        part.strip().replace('"', "'") for part in hints["transport"].removeprefix("Literal[").rstrip("]").split(",")
    ]


@pytest.mark.parametrize("name", ["tcp", "", "STDIO"])
def test_another_name_is_refused_with_those_that_exist(name: str) -> None:
    """Exact names: nothing is guessed."""
    with pytest.raises(ValueError, match="expected 'stdio' or 'http'"):
        transport_named(name)


@pytest.mark.parametrize("name", TRANSPORTS)
@pytest.mark.parametrize("call", ["run", "run_async"])
def test_a_misspelt_option_is_named_with_the_call_that_it_was_given_to(name: str, call: str) -> None:
    """The message is shown to the author of the call."""
    with pytest.raises(TypeError, match=rf'^{call}\("{name}"\) has no option \'nonsense\''):
        transport_named(name).check(call, {"nonsense": 1})
