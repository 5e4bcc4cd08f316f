"""Descriptions that are missing, long, alike, or say nothing."""

from __future__ import annotations

import pytest

from tests.checks.samples import codes, found, takes, tool


def test_a_missing_description() -> None:
    """White space is none."""
    assert codes(tool(description=None)) == ["F10"]
    assert codes(tool(description=" \n")) == ["F10"]
    assert codes(prompts=[{"name": "review"}], templates=[{"uriTemplate": "memo://{day}"}]) == ["F11", "F11"]


def test_the_same_description_twice() -> None:
    """Case, marks and plurals do not make a difference."""
    assert codes(tool("a"), tool("b", "find the row of a table")) == ["F12"]


def test_a_description_that_repeats_the_name() -> None:
    """``Finds rows`` of ``find_rows`` tells nothing; a word more does."""
    assert codes(tool("find_rows", "Find rows.")) == ["F13"]
    assert codes(tool("findRows", "This tool: find the rows")) == ["F13"]
    assert codes(tool("find_rows", "Find rows by table.")) == []


@pytest.mark.parametrize(("length", "expected"), [(1024, []), (1025, ["F14"])])
def test_a_long_description(length: int, expected: list[str]) -> None:
    """1,024 characters are the bound of several APIs."""
    assert codes(tool(description="x" * length)) == expected


def test_parameters_without_a_description_are_one_finding() -> None:
    """A set of values describes itself."""
    properties = {"a": {"type": "string"}, "b": {"enum": ["x"]}, "c": {"type": "integer", "description": "How many."}}
    (finding,) = found(takes(properties))
    assert (finding.code, finding.message) == ("F15", "does not describe a")
    assert codes(prompts=[{"name": "p", "description": "d", "arguments": [{"name": "x"}]}]) == ["F15"]


def test_long_instructions() -> None:
    """Codex reads the first 512 characters."""
    assert codes(instructions="x" * 512) == []
    assert codes(instructions="x" * 513) == ["F16"]


def test_malformed_definitions_are_no_failure() -> None:
    """A stranger's list may have anything."""
    assert "F10" in codes({"name": 5, "description": 7, "inputSchema": [], "annotations": "x", "_meta": 3})
