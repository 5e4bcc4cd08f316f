"""The actions of the API: what the page never sends is refused with a reason, and is no failure of the inspector."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ferrule.client.targets import StdioTarget
from ferrule.inspector.controller import InspectorController
from ferrule.inspector.errors import BadCall
from ferrule.inspector.target import InspectedTarget
from ferrule.transports.stdio.client import StdioServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("run", {"job": "j", "op": ["call"]}),
        ("run", {"job": "j", "op": "nothing"}),
        ("run", {"job": "j", "op": "call", "connection": ["main"]}),
        ("run", {"job": "j", "op": "call", "connection": {}}),
        ("run", {"job": "j", "op": "call", "params": ["a"]}),
        ("run", {"job": ["j"], "op": "call"}),
        ("snippet", {"form": "python", "op": "call", "params": ["a"]}),
    ],
)
async def test_a_body_of_wrong_types_is_refused_before_the_server_is_opened(action: str, body: dict[str, Any]) -> None:
    target = InspectedTarget("nothing", StdioTarget(StdioServer(sys.executable, ["-c", "raise SystemExit"])))
    controller = InspectorController(target)
    with pytest.raises(BadCall):
        await controller.calls[action](body)
    assert controller.jobs.get("j") is None
