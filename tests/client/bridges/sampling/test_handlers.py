"""What servers ask, answered by the model of a provider: requests in its form, responses in MCP's."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.bridges import answer_with, sample_with
from ferrule.errors import FerruleError
from ferrule.questions import Accepted
from ferrule.types import (
    CreateMessageRequestParams,
    ElicitRequestParams,
    SamplingMessage,
    Tool,
    ToolChoice,
    image_block,
    text_block,
    tool_result_block,
    tool_use_block,
)
from tests.client.bridges.recorded import RESPONSES

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::ferrule.protocol.deprecations.ProtocolDeprecationWarning"),
]
PNG = base64.b64encode(b"\x89PNG").decode()
QUESTION: Any = None

PARAMS = CreateMessageRequestParams(
    messages=[
        SamplingMessage("user", [text_block("What is this?"), image_block(PNG, "image/png")]),
        SamplingMessage("assistant", [text_block("I look."), tool_use_block("u1", "look.up", {"n": 1})]),
        SamplingMessage("user", tool_result_block("u1", [text_block("not there")], is_error=True)),
    ],
    max_tokens=9000,
    system_prompt="Be brief.",
    temperature=0.5,
    stop_sequences=["END"],
    tools=[Tool("look.up", {"type": "object", "properties": {"n": {"type": "integer"}}}, "Look something up")],
    tool_choice=ToolChoice("required"),
)
NAME = "look_up_c21994"


class Recorder:
    """A provider's function that creates a response.

    Attributes:
        requests: the arguments of each call.
    """

    def __init__(self, *responses: Any) -> None:
        self.requests: list[dict[str, Any]] = []
        self._responses = list(responses)

    async def __call__(self, **request: Any) -> Any:
        """Return the next response."""
        self.requests.append(request)
        return self._responses.pop(0)


async def asked(api: Any, response: Any, **options: Any) -> tuple[dict[str, Any], Any]:
    """The request for `PARAMS`, and the result."""
    create = Recorder(response)
    handler = sample_with(api, create, model="m", **options)
    result = await handler(PARAMS, QUESTION)
    return create.requests[0], result


async def test_anthropic() -> None:
    """Blocks, a forced tool, and the bound of the program on the tokens."""
    request, result = await asked("anthropic", RESPONSES["anthropic"](("t1", NAME, {"n": 2})))
    assert request == {
        "model": "m",
        "max_tokens": 4096,
        "system": "Be brief.",
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "u1", "name": NAME, "input": {"n": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "u1",
                        "content": [{"type": "text", "text": "not there"}],
                        "is_error": True,
                    }
                ],
            },
        ],
        "tools": [
            {
                "name": NAME,
                "description": "Look something up",
                "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
            }
        ],
        "tool_choice": {"type": "any"},
    }
    assert [block.type for block in result.content] == ["text", "tool_use"]
    assert (result.content[1].name, result.content[1].input) == ("look.up", {"n": 2})
    assert (result.stop_reason, result.model) == ("toolUse", "claude-opus-5")


async def test_openai_responses() -> None:
    """Items in the order of the conversation."""
    request, result = await asked("openai", RESPONSES["openai"](("t1", NAME, {"n": 2})))
    assert [item["type"] for item in request["input"]] == [
        "message",
        "message",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert request["input"][1]["content"][0]["image_url"] == f"data:image/png;base64,{PNG}"
    assert request["input"][3]["arguments"] == '{"n":1}'
    assert request["input"][4] == {"type": "function_call_output", "call_id": "u1", "output": "Error: not there"}
    assert (request["instructions"], request["max_output_tokens"], request["tool_choice"]) == (
        "Be brief.",
        4096,
        "required",
    )
    assert "stop_sequences" not in request
    assert (result.content.type, result.content.name, result.stop_reason) == ("tool_use", "look.up", "toolUse")


async def test_openai_chat() -> None:
    """A call and its result are messages of their own; any argument can be exchanged."""
    request, result = await asked(
        "openai-chat",
        RESPONSES["openai-chat"](("t1", NAME, {"n": 2})),
        request={"max_completion_tokens": None, "max_tokens": 10},
    )
    assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "tool"]
    assert request["messages"][2]["tool_calls"][0]["function"] == {"name": NAME, "arguments": '{"n":1}'}
    assert request["messages"][3] == {"role": "tool", "tool_call_id": "u1", "content": "Error: not there"}
    assert request["max_tokens"] == 10
    assert "max_completion_tokens" not in request
    assert request["stop"] == ["END"]
    assert (result.content.name, result.stop_reason) == ("look.up", "toolUse")


async def test_gemini() -> None:
    """The response of a function has its name, too."""
    request, result = await asked("gemini", RESPONSES["gemini"](("t1", NAME, {"n": 2})))
    assert [content["role"] for content in request["contents"]] == ["user", "model", "user"]
    assert request["contents"][0]["parts"][1] == {"inlineData": {"mimeType": "image/png", "data": PNG}}
    assert request["contents"][2]["parts"] == [
        {"functionResponse": {"id": "u1", "name": NAME, "response": {"error": "not there"}}}
    ]
    assert request["config"]["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert request["config"]["maxOutputTokens"] == 4096
    assert (result.content.name, result.stop_reason, result.model) == ("look.up", "toolUse", "gemini-3.8-flash")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_server_samples(mode: str) -> None:
    """In both eras, with the program's word before it."""
    app = MCPServer("s")

    @app.tool
    async def summary(text: str, ctx: Context) -> str:
        return (await ctx.sample(text, max_tokens=50)).text

    create = Recorder({"role": "assistant", "model": "c", "content": [{"type": "text", "text": "Short."}]})
    verdicts = [True, False]
    handler = sample_with("anthropic", create, model=lambda params: "chosen", approve=lambda params, q: verdicts.pop(0))
    async with Client(app, mode=mode, sampling_handler=handler) as client:
        assert (await client.call_tool("summary", {"text": "long"})).text == "Short."
        # In 2026-07-28 the call itself ends; before, the tool gets the error and fails.
        try:
            refused = (await client.call_tool("summary", {"text": "long"})).is_error
        except FerruleError as error:
            refused = "rejected" in str(error)
    assert refused
    assert [(request["model"], request["max_tokens"]) for request in create.requests] == [("chosen", 50)]


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "class": {"type": "string", "oneOf": [{"const": "1", "title": "First"}, {"const": "2", "title": "Second"}]},
        "extras": {"type": "array", "items": {"anyOf": [{"const": "meal", "title": "A meal"}]}},
        "seats": {"type": "array", "items": {"type": "string", "enum": ["aisle"]}},
    },
    "required": ["city"],
}


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("answer", {"city": "Oslo", "days": 3, "more": 1}, {"city": "Oslo", "days": 3}),
        ("answer", {"days": 3}, None),
        ("answer", {"city": "Oslo", "days": "three"}, None),
        ("answer", {"city": "Oslo", "class": "First"}, None),
        ("answer", {"city": "Oslo", "extras": ["A meal"]}, None),
        ("answer", {"city": "Oslo", "seats": ["window"]}, None),
        (
            "answer",
            {"city": "Oslo", "class": "1", "extras": ["meal"], "seats": ["aisle"]},
            {"city": "Oslo", "class": "1", "extras": ["meal"], "seats": ["aisle"]},
        ),
        ("decline", {}, None),
    ],
)
async def test_a_model_fills_in_a_form(name: str, arguments: Any, expected: Any) -> None:
    """Only what fits the form is sent; all else is declined."""
    create = Recorder(RESPONSES["openai"](("t", name, arguments)))
    handler = answer_with("openai", create, model="m", context=lambda: "A trip to Oslo")
    params = ElicitRequestParams(message="Where to?", requested_schema=FORM)
    question: Any = type("Question", (), {"server": "travel"})()
    result = await handler(params, question)
    assert (result.action, result.content) == (("decline" if expected is None else "accept"), expected)
    (request,) = create.requests
    assert request["input"][0]["content"] == "A trip to Oslo\n\nThe server travel asks: Where to?"
    assert [tool["name"] for tool in request["tools"]] == ["answer", "decline"]


async def test_a_model_opens_no_urls_and_a_program_may_refuse() -> None:
    """Nothing is sent to the model then."""
    create = Recorder()
    handler = answer_with("gemini", create, model="m", approve=lambda params, question: False)
    question: Any = None
    assert (await handler(ElicitRequestParams(message="x", mode="url", url="https://x"), question)).action == "decline"
    assert (await handler(ElicitRequestParams(message="x", requested_schema=FORM), question)).action == "decline"
    assert create.requests == []
    with pytest.raises(ValueError, match="Sampling is possible with"):
        sample_with("json-schema", create, model="m")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_servers_question_is_answered(mode: str) -> None:
    """As the user's would be."""
    app = MCPServer("s")

    @app.tool
    async def book(ctx: Context) -> str:
        answer = await ctx.elicit("Where to?", str)
        return answer.data if isinstance(answer, Accepted) else "nowhere"

    def create(**request: Any) -> Any:
        (field,) = request["tools"][0]["input_schema"]["properties"]
        return RESPONSES["anthropic"](("t", "answer", {field: "Oslo"}))

    async with Client(app, mode=mode, elicitation_handler=answer_with("anthropic", create, model="m")) as client:
        assert (await client.call_tool("book")).text == "Oslo"
