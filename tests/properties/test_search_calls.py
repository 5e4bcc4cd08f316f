"""A call through the search of a gateway is the call itself: result, error, questions, progress, in every pair of eras.

A generated script tells the tool behind what to ask, what to report and how to end. The same script runs under the
tool's own name and through ``call_tool``; what the client sees must be the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule import Client, MCPError, Server, proxy
from ferrule.wire.codec import to_builtins
from ferrule.wire.types import ListToolsResult, Tool, ToolAnnotations
from tests.client.patience import patient_gateway

ERAS = ["2026-07-28", "2025-11-25"]
PAIRS = [(before, behind) for before in ERAS for behind in ERAS]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.just({"type": "image", "data": "aGk=", "mimeType": "image/png", "_meta": {"x.example/of": 1}}),
    st.just({"type": "resource_link", "uri": "doc://one", "name": "one"}),
)
results = st.fixed_dictionaries(
    {"content": st.lists(blocks, max_size=3)},
    optional={
        "structuredContent": st.dictionaries(texts, json_values, max_size=3),
        "isError": st.booleans(),
        "_meta": st.dictionaries(st.sampled_from(["x.example/a", "y.example/b"]), json_values, max_size=2),
        "x-unknown": json_values,
    },
)
errors = st.fixed_dictionaries({"code": st.integers(-32099, -32000), "message": texts, "data": json_values})
questions = st.sampled_from(
    [
        ("elicitation/create", {"message": "Who?", "requestedSchema": FORM}),
        ("sampling/createMessage", {"messages": [], "maxTokens": 5}),
        ("roots/list", None),
    ]
)
scripts = st.fixed_dictionaries(
    {
        "progress": st.lists(st.integers(1, 5), max_size=2),
        "ask": st.lists(questions, max_size=2),
        "end": st.one_of(st.fixed_dictionaries({"result": results}), st.fixed_dictionaries({"error": errors})),
        "argument": json_values,
    }
)


def behind_server() -> Server[Any]:
    """A server whose one tool does what its arguments say."""
    server: Server[Any] = Server("behind")

    @server.request("tools/list")
    async def tools(ctx: Any) -> ListToolsResult:
        return ListToolsResult([Tool("act", {"type": "object"}, annotations=ToolAnnotations({"idempotentHint": True}))])

    @server.request("tools/call")
    async def call(ctx: Any) -> Any:
        if ctx.params.name != "act":
            raise MCPError(f"no {ctx.params.name}", code=-32602)
        script: Any = ctx.params.arguments
        for step in script["progress"]:
            await ctx.session.progress(step, 5, "going on")
        answered = 0
        if ctx.session.connection.is_modern:
            answered = int(ctx.params.request_state or 0)
            answered += f"q{answered}" in (ctx.params.input_responses or {})
            if answered < len(script["ask"]):
                method, params = script["ask"][answered]
                asked = {"method": method} if params is None else {"method": method, "params": params}
                requests = {f"q{answered}": asked}
                return {"resultType": "input_required", "inputRequests": requests, "requestState": str(answered)}
        else:
            for method, params in script["ask"]:
                await ctx.session.send_request(method, params)
                answered += 1
        end = script["end"]
        if "error" in end:
            raise MCPError(end["error"]["message"], code=end["error"]["code"], data=end["error"]["data"])
        result = dict(end["result"])
        result["_meta"] = {**result.get("_meta", {}), "x.example/arguments": script["argument"]}
        result["content"] = [*result["content"], {"type": "text", "text": f"{answered} answers"}]
        return result

    return server


class Watched:
    """A client, and what it was asked and told during one call."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def elicit(self, asked: Any) -> Any:
        self.seen.append(("elicit", asked.message))
        return {"name": "Ada"}

    def sample(self, asked: Any) -> Any:
        self.seen.append(("sample", asked.max_tokens))
        return "text"

    def roots(self) -> list[Any]:
        self.seen.append(("roots",))
        return []

    def progress(self, at: float, total: float | None, message: str | None) -> None:
        self.seen.append(("progress", at, total, message))

    async def call(self, client: Client, name: str, arguments: Mapping[str, Any]) -> Any:
        """What a caller sees of one call."""
        self.seen = []
        try:
            found = await client.call_tool(name, arguments, on_progress=self.progress)
            ended: Any = to_builtins(found.result)
        except MCPError as error:
            ended = (error.code, error.message, to_builtins(error.data))
        return ended, self.seen

    async def raw(self, client: Client, name: str, arguments: Mapping[str, Any]) -> Any:
        """The result as it came, with members that no type has."""
        try:
            return await client.request("tools/call", {"name": name, "arguments": arguments})
        except MCPError as error:
            return error.code, error.message, to_builtins(error.data)


async def compare(before: str, behind: str, is_gateway: bool, drawn: list[Any]) -> None:
    watched = Watched()
    if is_gateway:
        server = patient_gateway({"one": behind_server(), "two": behind_server()}, mode=behind, tool_search=True).server
    else:
        server = proxy(behind_server(), mode=behind, tool_search=True)
    name = "two_act" if is_gateway else "act"
    handlers: dict[str, Any] = {
        "elicitation_handler": watched.elicit,
        "sampling_handler": watched.sample,
        "roots": watched.roots,
    }
    async with Client(server, mode=before, validate_output=False, **handlers) as client:
        for script in drawn:
            inner = {"name": name, "arguments": script}
            direct = await watched.call(client, name, script)
            assert await watched.call(client, "call_tool", inner) == direct
            if not script["ask"]:
                assert await watched.raw(client, "call_tool", inner) == await watched.raw(client, name, script)


@pytest.mark.parametrize("is_gateway", [False, True], ids=["proxy", "gateway"])
@pytest.mark.parametrize(("before", "behind"), PAIRS)
@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.lists(scripts, min_size=1, max_size=4))
def test_a_call_through_the_search_is_the_call_itself(
    before: str, behind: str, is_gateway: bool, drawn: list[Any]
) -> None:
    anyio.run(partial(compare, before, behind, is_gateway, drawn))


@pytest.mark.parametrize(("before", "behind"), PAIRS)
def test_each_kind_of_question_passes(before: str, behind: str) -> None:
    """The generated scripts would not fail if no question reached the client."""
    asked = [
        ["elicitation/create", {"message": "Who?", "requestedSchema": FORM}],
        ["sampling/createMessage", {"messages": [], "maxTokens": 5}],
        ["roots/list", None],
    ]
    end = {"result": {"content": [], "_meta": {"x.example/a": 1}, "isError": True}}

    async def run() -> None:
        watched = Watched()
        server = patient_gateway({"one": behind_server(), "two": behind_server()}, mode=behind, tool_search=True).server
        handlers: dict[str, Any] = {
            "elicitation_handler": watched.elicit,
            "sampling_handler": watched.sample,
            "roots": watched.roots,
        }
        async with Client(server, mode=before, **handlers) as client:
            for number, wanted in enumerate([("elicit", "Who?"), ("sample", 5), ("roots",)]):
                script = {"progress": [3], "ask": [asked[number]], "end": end, "argument": "x"}
                inner = {"name": "one_act", "arguments": script}
                ended, seen = await watched.call(client, "call_tool", inner)
                assert wanted in seen
                assert ("progress", 3, 5, "going on") in seen
                assert ended["isError"] is True
                assert ended["content"][-1]["text"] == "1 answers"
                assert ended["_meta"]["x.example/a"] == 1
                assert ended["_meta"]["x.example/arguments"] == "x"

    anyio.run(run)
