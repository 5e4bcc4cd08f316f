"""What the fast path writes for a value is what the plan makes of it, or it is left to the plan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pytest

from ferrule import Client, MCPServer
from ferrule.app.results.fast_results import writer_for
from ferrule.app.results.result_plan import plan_result
from ferrule.wire.jsonrpc import encode_response
from ferrule.wire.plain_calls import ANSWER_HEAD
from ferrule.wire.revisions import REVISIONS, project_result

MODERN = "2026-07-28"


@dataclass
class User:
    name: str
    age: int = 0


class Tagged(msgspec.Struct, tag=True):
    size: int = 1


class Pair(msgspec.Struct, array_like=True):
    left: int
    right: str = ""


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize(
    ("returns", "value", "is_fast"),
    [
        (list[User], [User("a"), User("b", 2)], True),
        (list[User], [], True),
        (list[User], [{"name": "a", "password": "secret"}], False),
        (list[User], [User("a"), {"name": "b"}], False),
        (list[Tagged], [Tagged(2)], True),
        (list[Tagged], [{}], False),
        (list[Pair], [Pair(1)], True),
        (list[Pair], [[1]], False),
        (list[int], [1, 2], True),
    ],
)
def test_a_list_is_written_as_the_plan_makes_it(returns: Any, value: Any, is_fast: bool, version: str) -> None:
    """Items that are no instances have no defaults and no tag yet, and perhaps members of another name."""
    plan, revision = plan_result(returns), REVISIONS[version]
    finish = partial(project_result, revision, "tools/call")
    pieces = writer_for(plan, revision, finish)(value)
    assert (pieces is not None) is is_fast
    if pieces is not None:
        assert ANSWER_HEAD + b"1" + b"".join(pieces) == encode_response(1, finish(plan.project(value, revision)))


@pytest.mark.anyio
@pytest.mark.parametrize("mode", [MODERN, "2025-11-25"])
async def test_members_without_a_declaration_stay_on_the_server(mode: Any) -> None:
    """A function returns rows of a database; the declared class decides what leaves."""
    app: MCPServer[Any] = MCPServer("users")

    async def users() -> Any:
        return [{"name": "a", "password": "secret"}]

    users.__annotations__["return"] = list[User]
    app.tool(users)
    async with Client(app, mode=mode) as client:
        result = await client.call_tool("users")
    assert result.content[0].text == '[{"name":"a"}]'
    assert "secret" not in repr(result.structured_content)
