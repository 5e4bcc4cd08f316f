"""Arguments and results on spans: masked, bounded, only where asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule.integrations.opentelemetry.payloads import Payloads
from ferrule.wire.types import ToolContentBlock, ToolResult

KEY = "sk-" + "a1B2c3D4" * 4


def test_arguments_of_tools_are_json_without_secrets() -> None:
    params = {"name": "x", "arguments": {"city": "Oslo", "api_key": "abc", "note": f"use {KEY}"}}
    (text,) = Payloads().of_request("tools/call", params).values()
    assert json.loads(text) == {"city": "Oslo", "api_key": "(masked)", "note": "use (masked)"}


def test_variables_of_prompts_have_a_name_each() -> None:
    """By the conventions; at most 32, since a client chooses their names."""
    arguments = {"topic": "brass", "token": "abc"}
    assert Payloads().of_request("prompts/get", {"name": "x", "arguments": arguments}) == {
        "gen_ai.prompt.variable.topic": "brass",
        "gen_ai.prompt.variable.token": "(masked)",
    }
    many = {f"n{number}" * 50: "v" for number in range(100)}
    found = Payloads().of_request("prompts/get", {"name": "x", "arguments": many})
    assert len(found) == 32
    assert max(len(name) for name in found) == len("gen_ai.prompt.variable.") + 64


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"structuredContent": {"n": 1}, "content": []}, '{"n":1}'),
        ({"content": [{"type": "text", "text": "ok"}]}, '[{"type":"text","text":"ok"}]'),
        (ToolResult(content=[ToolContentBlock(type="text", text="ok")]), '[{"type":"text","text":"ok"}]'),
    ],
)
def test_results_are_the_structured_ones_or_the_content(result: Any, expected: str) -> None:
    assert Payloads().of_result("tools/call", result) == {"gen_ai.tool.call.result": expected}


def test_long_payloads_are_cut() -> None:
    """Also inside a character of several bytes."""
    (text,) = Payloads(max_bytes=20).of_request("tools/call", {"arguments": {"a": "ø" * 500}}).values()
    assert text == '{"a":"' + "ø" * 7 + "…"


@pytest.mark.parametrize("params", [None, [], {}, {"arguments": None}, {"arguments": 5}])
def test_what_is_no_request_has_no_payload(params: Any) -> None:
    assert Payloads().of_request("prompts/get", params) == {}


def test_what_is_not_json_fails_no_call() -> None:
    assert Payloads().of_request("tools/call", {"arguments": {"a": object()}}) == {
        "gen_ai.tool.call.arguments": "(not JSON)"
    }
    assert Payloads().of_result("tools/call", object()) == {}


def test_each_half_can_be_left_out() -> None:
    assert Payloads(arguments=False).of_request("tools/call", {"arguments": {"a": 1}}) == {}
    assert Payloads(results=False).of_result("tools/call", {"content": []}) == {}
    assert Payloads().of_result("resources/read", {"contents": []}) == {}
    assert Payloads(mask=lambda value: "gone").of_request("tools/call", {"arguments": {"a": 1}}) == {
        "gen_ai.tool.call.arguments": '"gone"'
    }


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("tools/call", {"a": 1}, {"gen_ai.tool.call.arguments": '"(mask failed)"'}),
        ("prompts/get", {"a": "x"}, {}),
    ],
)
def test_a_mask_that_raises_fails_no_call_and_shows_nothing(
    method: str, arguments: Any, expected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A call that has run would be answered with an error, and the client would repeat it."""

    def mask(value: Any) -> Any:
        raise KeyError("city")

    assert Payloads(mask=mask).of_request(method, {"arguments": arguments}) == expected
    assert Payloads(mask=mask).of_result("tools/call", {"structuredContent": 1}) == {
        "gen_ai.tool.call.result": '"(mask failed)"'
    }
    assert caplog.text.count("Payloads(mask=…) failed") == 2


def test_a_mask_that_makes_no_object_of_variables_leaves_them_out() -> None:
    assert Payloads(mask=lambda value: "gone").of_request("prompts/get", {"arguments": {"a": "x"}}) == {}
