"""Names and URIs of several servers as one list."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.client.config_settings import ServerSettings, ToolSettings
from ferrule.client.gateway.pages import RawList
from ferrule.client.gateway.routes import GatewayRoutes, prefix_for
from ferrule.client.gateway.upstreams.settings import UpstreamSettings
from ferrule.client.gateway.upstreams.upstream import Upstream


def routes(**prefixes: str) -> tuple[GatewayRoutes, dict[str, Upstream]]:
    """Servers by name, with their prefixes."""
    upstreams = {name: Upstream(name, prefix, None, UpstreamSettings()) for name, prefix in prefixes.items()}
    return GatewayRoutes(upstreams), upstreams


def tools(*names: Any) -> RawList:
    """A list of tools."""
    return RawList([{"name": name} for name in names], {"ttlMs": 1000})


def test_a_prefix_is_a_name_that_models_take_and_no_other_server_has() -> None:
    """Model APIs allow few characters."""
    assert prefix_for("my app", set()) == "my_app"
    assert prefix_for("my.app", {"my_app"}) == "my_appx"
    assert prefix_for("é", set()) == "_"
    assert prefix_for("", set()) == "server"


def test_names_get_the_prefix_of_their_server_and_lead_back_to_it() -> None:
    """A server without prefix keeps its names."""
    made, upstreams = routes(a="a", b="")
    merged = made.merge("tools/list", [(upstreams["a"], tools("x", "x")), (upstreams["b"], tools("y"))])
    assert ([item["name"] for item in merged.items], merged.rest) == (["a_x", "y"], {"ttlMs": 1000})
    assert made.of_name("tools", "a_x") == (upstreams["a"], "x")
    assert made.of_name("tools", "y") == (upstreams["b"], "y")
    assert made.is_listed("y")
    assert not made.is_listed("x")


def test_a_name_that_models_do_not_take_is_cut_and_leads_back() -> None:
    """The same for the same tool at every start, and different for two that begin alike."""
    made, upstreams = routes(a="a")
    long = ["x" * 70 + "1", "x" * 70 + "2"]
    shown = [item["name"] for item in made.merge("tools/list", [(upstreams["a"], tools(*long))]).items]
    assert [len(name) for name in shown] == [64, 64]
    assert [made.of_name("tools", name) for name in shown] == [(upstreams["a"], own) for own in long]
    other, upstreams = routes(a="a")
    again = other.merge("tools/list", [(upstreams["a"], tools(*reversed(long)))]).items
    assert [item["name"] for item in again] == shown[::-1]


def test_items_without_a_name_are_left_out() -> None:
    """Lists may come from a file."""
    made, upstreams = routes(a="a")
    broken = RawList([{"name": 5}, 5, {}, {"name": "x"}])
    assert [item["name"] for item in made.merge("tools/list", [(upstreams["a"], broken)]).items] == ["a_x"]


def test_a_tool_that_the_configuration_hides_is_neither_listed_nor_called() -> None:
    """Its name is known to models from elsewhere."""
    made, upstreams = routes(a="a")
    said = ServerSettings(exclude=("secret",), tools={"x": ToolSettings(name="better")})
    upstreams["a"].settings = UpstreamSettings(tools=said)
    merged = made.merge("tools/list", [(upstreams["a"], tools("secret", "x"))])
    assert [item["name"] for item in merged.items] == ["a_better"]
    assert made.of_name("tools", "a_better") == (upstreams["a"], "x")
    assert made.of_name("tools", "a_secret") is None


def test_uris_belong_to_the_first_server_and_templates_match() -> None:
    """Resources keep their URIs."""
    made, upstreams = routes(a="a", b="b")
    lists = [
        (upstreams["a"], RawList([{"uri": "u://1"}])),
        (upstreams["b"], RawList([{"uri": "u://1"}, {"uri": "u://2"}])),
    ]
    assert [item["uri"] for item in made.merge("resources/list", lists).items] == ["u://1", "u://2"]
    template = RawList([{"uriTemplate": "day://{day}"}, {"uriTemplate": "{malformed"}])
    made.merge("resources/templates/list", [(upstreams["b"], template)])
    owners = {uri: made.of_uri(uri) for uri in ("u://1", "u://2", "day://monday", "x://y")}
    assert owners == {"u://1": upstreams["a"], "u://2": upstreams["b"], "day://monday": upstreams["b"], "x://y": None}
    assert made.of_template("{malformed") is upstreams["b"]
    made.remember("x://y", upstreams["a"])
    assert made.of_uri("x://y") is upstreams["a"]


@pytest.mark.parametrize("kind", ["tools", "prompts"])
def test_a_removed_server_has_no_names(kind: str) -> None:
    """After `reset`."""
    made, upstreams = routes(a="a")
    del upstreams["a"]
    made.reset()
    assert made.of_name(kind, "a_x") is None
