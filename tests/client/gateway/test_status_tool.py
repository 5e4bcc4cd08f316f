"""The tool that says how the servers behind a gateway are."""

from __future__ import annotations

import pytest

from ferrule.client.gateway.status_tool import status_name


@pytest.mark.parametrize(
    ("prefixes", "name"),
    [
        ([], "gateway_status"),
        (["docs", "gate"], "gateway_status"),
        (["gateway"], "ferrule_gateway_status"),
        (["gateway", "ferrule"], "gateway1_status"),
        (["gateway", "ferrule", "gateway1"], "gateway2_status"),
        (["gateway", "ferrule_gateway"], "gateway1_status"),
    ],
)
def test_no_tool_of_a_server_can_have_its_name(prefixes: list[str], name: str) -> None:
    """The names of a server's tools begin with its prefix."""
    assert status_name(prefixes) == name
