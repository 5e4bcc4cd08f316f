"""Sessions as files: without the secret arguments of tools, whatever their names."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from ferrule.inspector.sessions.recording import write_session
from ferrule.protocol.secret_forms import MASK


class Kept:
    """Messages of one connection."""

    def __init__(self, *messages: tuple[str, Any]) -> None:
        self._messages = messages

    def of_connection(self, connection: str) -> Any:
        for direction, message in self._messages:
            yield SimpleNamespace(at_ms=1.0, direction=direction), json.dumps(message).encode()


def test_secret_arguments_are_masked_also_before_the_list() -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string", "writeOnly": True}, "user": {}}}
    call = {
        "id": 1,
        "method": "tools/call",
        "params": {"name": "sign_in", "arguments": {"word": "hunter2", "user": "ada"}},
    }
    listed = {"id": 2, "result": {"tools": [{"name": "sign_in", "inputSchema": schema}]}}
    store: Any = Kept(("out", call), ("in", listed), ("in", "no message"))
    data, left_out = write_session(store, "c")
    first, second, third = (json.loads(line) for line in data.splitlines())
    assert first["message"]["params"]["arguments"] == {"word": MASK, "user": "ada"}
    assert second["message"] == listed
    assert (third["raw"], left_out) == ("no message", 0)
