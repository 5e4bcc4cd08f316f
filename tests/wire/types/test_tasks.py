"""ferrule.wire.types: tasks."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError


def test_a_task_without_expiry_has_a_null_ttl() -> None:
    """`ttl` is required and nullable: null is for ever, absence is an error."""
    wire = {"taskId": "t", "status": "working", "createdAt": "x", "lastUpdatedAt": "x", "ttl": None}
    task = convert(wire, t.Task)
    assert task.ttl_ms is None
    assert decode(encode(task)) == wire
    del wire["ttl"]
    with pytest.raises(ConvertError, match="ttl"):
        convert(wire, t.Task)


def test_the_two_wires_of_tasks_differ_in_their_names() -> None:
    """2025-11-25 says `ttl`, the extension `ttlMs`; Python says `ttl_ms` for both."""
    fields: Any = {"task_id": "t", "status": "working", "created_at": "x", "last_updated_at": "x", "ttl_ms": 5}
    assert decode(encode(t.Task(**fields)))["ttl"] == 5
    assert decode(encode(t.DetailedTask(**fields)))["ttlMs"] == 5
