"""A server written on ``FastMCP`` of ``mcp`` 1.x, as clients of both eras see it."""

from __future__ import annotations

import functools
from typing import Any

import anyio
import pytest

from compat.tests.support import ERAS, client_of

pytestmark = pytest.mark.parametrize("mode", ERAS)

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "surplus": ("add", {"a": 1, "surplus": True}),
    "missing": ("add", {}),
    "bare": ("bare", {"name": "x"}),
    "typed": ("typed", {"place": "Oslo"}),
    "mapped": ("mapped", {}),
    "parsed": ("told", {"words": '["a", "b"]'}),
    "many": ("many", {}),
    "ready": ("ready", {}),
    "broken": ("broken", {}),
    "nothing": ("nothing", {}),
    "asked": ("asked", {}),
    "sampled": ("sampled", {}),
}


@functools.cache
def seen(mode: str) -> dict[str, Any]:
    """What one client sees of the server: its lists and the results of all calls."""
    made: dict[str, Any] = {"progress": [], "logs": []}

    async def look() -> None:
        async with client_of(
            "fast.py",
            mode,
            elicitation_handler=lambda _: {"place": "Bergen"},
            sampling_handler=lambda _: "spoken",
            roots=["/srv"],
            log_level="info",
            log_handler=lambda message: made["logs"].append(message.data),
        ) as client:
            made["tools"] = {tool.name: tool for tool in await client.list_tools()}
            made["resources"] = await client.list_resources()
            made["templates"] = await client.list_resource_templates()
            made["prompts"] = await client.list_prompts()
            for name, (tool, arguments) in CALLS.items():
                made[name] = await client.call_tool(
                    tool, arguments, on_progress=lambda done, total, _: made["progress"].append((done, total))
                )
            made["one"] = await client.read_resource("note://one")
            made["of"] = await client.read_resource("note://of/Ada")
            made["prompt"] = await client.get_prompt("ask", {"topic": "rain"})
            made["instructions"] = client.instructions

    anyio.run(look)
    return made


def test_lists_have_names_required_arguments_and_types(mode: str) -> None:
    """Hosts show these to models; `= Field()` is a default, and a parameter without annotation is text."""
    tools, prompts = seen(mode)["tools"], seen(mode)["prompts"]
    assert list(tools) == [
        "add", "bare", "typed", "mapped", "many", "ready", "broken", "told", "asked", "sampled",
    ]  # fmt: skip
    assert tools["add"].input_schema["required"] == ["a"]
    assert tools["add"].input_schema["properties"]["b"] == {
        "type": "integer", "default": 2, "description": "the other one",
    }  # fmt: skip
    assert tools["add"].annotations["readOnlyHint"] is True
    assert tools["bare"].input_schema["properties"] == {"name": {"type": "string"}}
    assert tools["told"].input_schema["properties"].keys() == {"words"}
    structured = [name for name, tool in tools.items() if isinstance(tool.output_schema, dict)]
    assert structured == ["add", "typed", "mapped", "broken", "told", "asked", "sampled"]
    assert [(each.uri, each.mime_type) for each in seen(mode)["resources"]] == [("note://one", "text/markdown")]
    assert [each.uri_template for each in seen(mode)["templates"]] == ["note://of/{who}"]
    assert [(part.name, bool(part.required)) for part in prompts[0].arguments or ()] == [
        ("topic", True), ("style", False),
    ]  # fmt: skip
    assert seen(mode)["instructions"] == "Ask politely."


@pytest.mark.parametrize(
    ("name", "texts", "data"),
    [
        ("surplus", ["3"], {"result": 3}),
        ("bare", ['{\n  "name": "x",\n  "list": [\n    1,\n    null\n  ]\n}'], None),
        ("typed", ['{\n  "place": "Oslo",\n  "degrees": 1.5\n}'], {"place": "Oslo", "degrees": 1.5}),
        ("mapped", ['{\n  "ø": [\n    1\n  ]\n}'], {"ø": [1]}),
        ("parsed", ["a b kept"], {"result": "a b kept"}),
        ("asked", ["Bergen"], {"result": "Bergen"}),
        ("sampled", ["spoken file:///srv"], {"result": "spoken file:///srv"}),
    ],
)
def test_results_are_text_and_structured_by_the_old_rules(mode: str, name: str, texts: list[str], data: Any) -> None:
    """Texts are indented by two; what is declared is structured as well, and no object is wrapped in `result`.

    Questions are requests in the handshake era and rounds of the call in the modern one.
    """
    result = seen(mode)[name]
    assert not result.is_error
    assert [block.text for block in result.content] == texts
    assert (result.structured_content or None) == data


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"bare": "[1]", "any_value": '{"a": 1}', "either": '["x"]'}, "([1], {'a': 1}, ['x'], '', False)"),
        ({"bare": "null", "maybe": "null"}, "(None, 0, '', None, False)"),
        ({"bare": "5", "any_value": '"x"', "either": "{1}", "maybe": "[1]"}, "('5', '\"x\"', '{1}', '[1]', False)"),
        ({"bare": "", "yes": "True"}, "('', 0, '', '', True)"),
        ({"bare": "", "yes": 1}, "('', 0, '', '', True)"),
    ],
)
async def test_arguments_are_read_as_json_where_text_is_not_all(mode: str, given: dict[str, Any], text: str) -> None:
    """Models send lists, objects and null as text, and truth values as Python writes them."""
    async with client_of("forms.py", mode) as client:
        assert (await client.call_tool("read", given)).content[0].text == text


@pytest.mark.anyio
async def test_arguments_of_prompts_stay_text(mode: str) -> None:
    """They are nothing else in the protocol, and the old SDK did not read them."""
    async with client_of("forms.py", mode) as client:
        found = await client.get_prompt("topic", {"words": "[1]", "maybe": "null"})
    assert found.messages[0].content.text == "('[1]', 'null')"


@pytest.mark.anyio
async def test_results_are_converted_to_the_declared_type(mode: str) -> None:
    """Servers rely on it without knowing: ``round(x, 0)`` for an integer, the keys of a dictionary for a list."""
    async with client_of("forms.py", mode) as client:
        found = [await client.call_tool(name, {}) for name in ("whole", "price", "ready", "keys")]
        unfit = await client.call_tool("unfit", {})
    assert [each.structured_content for each in found] == [
        {"result": 5}, {"result": 1.5}, {"result": True}, {"result": ["a"]},
    ]  # fmt: skip
    assert unfit.is_error


def test_content_blocks_pass(mode: str) -> None:
    """A list becomes one block for each item; a `CallToolResult` is sent as it is."""
    many, ready = seen(mode)["many"], seen(mode)["ready"]
    assert [block.type for block in many.content] == ["text", "text", "image"]
    assert many.content[2].mime_type == "image/png"
    assert (ready.is_error, ready.content[0].text, ready.meta["k"]) == (True, "x", 1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("broken", "Error executing tool broken: no luck"),
        ("missing", "Error executing tool add: "),
        ("nothing", "Unknown tool: nothing"),
    ],
)
def test_failures_are_results_with_the_old_texts(mode: str, name: str, text: str) -> None:
    """Models read these texts; an unknown tool was a result and no error, too."""
    result = seen(mode)[name]
    assert result.is_error
    assert result.content[0].text.startswith(text)


def test_progress_and_log_messages_arrive(mode: str) -> None:
    """Both belong to the call."""
    assert seen(mode)["progress"] == [(1, 2), (2, 2)]
    assert seen(mode)["logs"] == ["begun"]


def test_resources_and_prompts_are_read(mode: str) -> None:
    """Data of a resource is JSON text; a prompt may return messages of several roles."""
    one, of, prompt = (seen(mode)[name] for name in ("one", "of", "prompt"))
    assert (one.contents[0].text, one.contents[0].mime_type) == ("remember", "text/markdown")
    assert of.contents[0].text == '{\n  "of": "Ada"\n}'
    assert [(each.role, each.content.text) for each in prompt.messages] == [
        ("user", "rain, short"), ("assistant", "Yes?"),
    ]  # fmt: skip


@pytest.mark.anyio
async def test_a_client_that_cannot_be_asked_gets_a_result_that_says_so(mode: str) -> None:
    """Servers catch this error, as they caught the refusal of a client."""
    async with client_of("fast.py", mode) as client:
        result = await client.call_tool("asked", {})
    assert result.is_error
    assert "elicitation" in (result.content[0].text or "")
