"""The types of the providers' own packages over every definition and every kind of result."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ferrule.bridges import ToolBridge
from ferrule.client.calls.results import ToolCallResult
from ferrule.types import Tool
from tests.client.bridges.model_schemas import SCHEMAS
from tests.client.bridges.recorded import RESPONSES
from tests.client.bridges.sampling.test_handlers import asked
from tests.client.bridges.scenarios.test_table import KINDS
from tests.conftest import peer_program

pytestmark = [pytest.mark.peer, pytest.mark.anyio]


class Source:
    """The tools as they are, without a server's own judgement of their schemas."""

    def __init__(self) -> None:
        self.servers = {"s": None, "kind": None}

    async def list_tools(self) -> Any:
        """A tool for each schema and each kind."""
        made = [Tool(f"s_{name}", schema, f"About {name}") for name, (schema, _) in SCHEMAS.items()]
        return made + [Tool(f"kind_{name}", {"type": "object"}) for name in KINDS]

    async def call_tool(self, name: str, arguments: Any = None, /, **options: Any) -> Any:
        """The result of a kind."""
        return ToolCallResult(name, KINDS[name.removeprefix("kind_")])


async def cases() -> list[dict[str, Any]]:
    """What each API is given: plain, strict and deferred definitions, and the results of all kinds at once."""
    found: list[dict[str, Any]] = []
    apis: list[Any] = ["anthropic", "openai", "openai-chat", "gemini", "gemini-openapi"]
    for api in apis:
        for name, options in {"plain": {}, "strict": {"strict": True}, "deferred": {"budget": 1}}.items():
            bridge = ToolBridge(Source(), api, **options)
            tools = await bridge.tools()
            names = {entry.name for entry in await bridge.entries() if entry.server == "kind"}
            make = RESPONSES["gemini" if api == "gemini-openapi" else api]
            response = make(*[(f"c{index}", each, {}) for index, each in enumerate(sorted(names))])
            answer = await bridge.answer(response)
            assert len(answer.outcomes) == len(KINDS)
            request, _ = await asked("gemini" if api == "gemini-openapi" else api, response)
            found.append(
                {
                    "name": f"{api} {name}",
                    "api": api,
                    "tools": tools,
                    "response": response,
                    "answer": list(answer),
                    "request": request,
                }
            )
    return found


async def test_the_packages_take_them() -> None:
    """Types of TypedDict and pydantic, as each package has them."""
    python = peer_program("model-packages")
    script = Path(__file__).with_name("model_packages_script.py")
    lines = "".join(json.dumps(case) + "\n" for case in await cases())
    done = subprocess.run([python, str(script)], input=lines, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["checked"]
