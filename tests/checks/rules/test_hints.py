"""Annotations: missing, contradicting, doubtful."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checks.samples import codes, tool


@pytest.mark.parametrize(
    ("name", "annotations", "expected"),
    [
        ("find_rows", {"readOnlyHint": True}, []),
        ("find_rows", {"destructiveHint": False}, []),
        ("find_rows", {"title": "Find"}, ["F40"]),
        ("find_rows", None, ["F40"]),
        ("find_rows", {"readOnlyHint": "yes"}, ["F40"]),
        ("find_rows", {"readOnlyHint": True, "destructiveHint": True}, ["F41"]),
        ("delete_rows", {"readOnlyHint": True}, ["F42"]),
        ("rowsDelete", {"readOnlyHint": True}, ["F42"]),
        ("list_deleted_rows", {"readOnlyHint": True}, []),
        ("delete_rows", {"destructiveHint": True}, []),
    ],
)
def test_hints(name: str, annotations: Any, expected: list[str]) -> None:
    """``list_deleted_rows`` deletes nothing."""
    assert codes(tool(name, annotations=annotations)) == expected
