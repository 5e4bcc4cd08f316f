"""Names of other libraries are answered with the name here, and each such name exists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

import ferrule
from ferrule import Client, MCPServer
from ferrule._elsewhere import ON_CLIENT, ON_SERVER


@pytest.mark.parametrize(
    ("made", "table"), [(MCPServer("x"), ON_SERVER), (Client(MCPServer("x")), ON_CLIENT)], ids=["server", "client"]
)
def test_names_are_translated(made: Any, table: Mapping[str, str]) -> None:
    """The suggestion is a name that there is, and the asked one is none."""
    for name, here in table.items():
        with pytest.raises(AttributeError, match=f"has no '{name}'; here it is {re.escape(here)}"):
            getattr(made, name)
        for suggested in re.findall(r"`(?:ferrule\.)?(\w+)", here):
            known = {*dir(type(made)), *vars(made), *dir(ferrule)}
            assert suggested in known, here


@pytest.mark.parametrize("made", [MCPServer("x"), Client(MCPServer("x"))], ids=["server", "client"])
def test_other_names_are_missing_as_ever(made: Any) -> None:
    """`hasattr` and default values work."""
    assert not hasattr(made, "nothing_of_the_kind")
    assert getattr(made, "sse_app", None) is None
    with pytest.raises(AttributeError, match=r"has no 'nothing_of_the_kind'$"):
        made.nothing_of_the_kind  # noqa: B018
