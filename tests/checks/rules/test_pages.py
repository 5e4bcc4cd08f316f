"""Pages of tools: there, of the right type, with a policy that hosts understand."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.checks.rules.pages import page_uri
from tests.checks.samples import codes, tool

URI = "ui://board"
GOOD = {"uri": URI, "mimeType": "text/html;profile=mcp-app"}


def shown(meta: dict[str, Any], page: dict[str, Any] | None) -> list[str]:
    """The findings about a tool with a page."""
    return codes(tool(_meta=meta), pages={} if page is None else {URI: page})


@pytest.mark.parametrize("meta", [{"ui": {"resourceUri": URI}}, {"ui/resourceUri": URI}])
def test_a_page(meta: dict[str, Any]) -> None:
    """By the key of today and by the old one."""
    assert page_uri({"_meta": meta}) == URI
    assert shown(meta, GOOD) == []
    assert shown(meta, {"error": "not found"}) == ["F70"]
    assert shown(meta, {**GOOD, "mimeType": "text/html"}) == ["F71"]
    assert shown(meta, None) == []


@pytest.mark.parametrize(
    ("csp", "expected"),
    [
        ({"connectDomains": ["https://a.example"], "frameDomains": []}, []),
        ({"connectDomains": ["https://a.example; script-src *"]}, ["F72"]),
        ({"connectDomains": "https://a.example"}, ["F72"]),
        ({"scriptDomains": []}, ["F72"]),
        ("none", ["F72"]),
    ],
)
def test_the_policy(csp: Any, expected: list[str]) -> None:
    """Hosts leave out what they do not understand."""
    assert shown({"ui": {"resourceUri": URI}}, {**GOOD, "_meta": {"ui": {"csp": csp}}}) == expected


def test_a_policy_at_the_tool_has_no_effect() -> None:
    """It belongs to the resource."""
    assert shown({"ui": {"resourceUri": URI, "csp": {}}}, GOOD) == ["F72"]


def test_a_tool_without_a_page() -> None:
    """Most tools."""
    assert page_uri({}) is None
    assert page_uri({"_meta": {"ui": {"visibility": ["model"]}}}) is None
    assert page_uri({"_meta": []}) is None
