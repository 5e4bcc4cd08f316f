"""ferrule.extensions.apps.dialect: the messages between views and hosts, beside the official schema of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferrule.app.signatures.validation import problems_by
from ferrule.extensions.apps.dialect import MESSAGES, problems_of, problems_of_result

TOOL = {
    "name": "board",
    "title": "Board",
    "description": "x",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "execution": {"taskSupport": "optional"},
    "_meta": {"ui": {"resourceUri": "ui://x/y"}},
}
CONTEXT = {
    "toolInfo": {"id": 1, "tool": TOOL},
    "theme": "dark",
    "styles": {"variables": {"--color-text-primary": "#fff"}, "css": {"fonts": "@font-face {}"}},
    "displayMode": "inline",
    "availableDisplayModes": ["inline", "fullscreen"],
    "locale": "de-AT",
    "timeZone": "Europe/Vienna",
    "userAgent": "x",
    "platform": "web",
    "deviceCapabilities": {"touch": True, "hover": False},
    "safeAreaInsets": {"top": 1, "right": 2, "bottom": 3, "left": 4},
    "more": 1,
}
BLOCKS = [
    {"type": "text", "text": "x", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {}},
    {"type": "image", "data": "AA==", "mimeType": "image/png"},
    {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "a://b", "text": "x", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "a://b", "blob": "AA=="}},
    {"type": "resource_link", "name": "x", "uri": "a://b", "title": "X", "size": 1},
]
CAPABILITIES = {
    "experimental": {"a": {"b": 1}},
    "openLinks": {},
    "downloadFile": {},
    "serverTools": {"listChanged": True},
    "serverResources": {},
    "logging": {},
    "sandbox": {"permissions": {"camera": {}}, "csp": {"connectDomains": ["https://a.example"]}},
    "updateModelContext": {"text": {}},
    "message": {"image": {}},
    "sampling": {"tools": {}},
}
SAMPLES: dict[str, Any] = {
    "McpUiInitializeRequest": {
        "appInfo": {"name": "x", "version": "1", "title": "X", "websiteUrl": "https://x.example"},
        "appCapabilities": {"availableDisplayModes": ["pip"], "tools": {"listChanged": True}, "experimental": {}},
        "protocolVersion": "2026-01-26",
    },
    "McpUiInitializedNotification": {},
    "McpUiOpenLinkRequest": {"url": "https://x.example"},
    "McpUiDownloadFileRequest": {"contents": [BLOCKS[3], BLOCKS[5]]},
    "McpUiMessageRequest": {"role": "user", "content": BLOCKS},
    "McpUiUpdateModelContextRequest": {"content": BLOCKS[:1], "structuredContent": {"a": 1}},
    "McpUiRequestDisplayModeRequest": {"mode": "fullscreen"},
    "McpUiSizeChangedNotification": {"width": 1, "height": 2.5},
    "McpUiRequestTeardownNotification": {},
    "McpUiToolInputNotification": {"arguments": {"a": [1]}},
    "McpUiToolInputPartialNotification": {"arguments": {}},
    "McpUiToolResultNotification": {
        "content": BLOCKS, "structuredContent": {"a": 1}, "isError": False, "_meta": {"viewUUID": "x"}, "more": 1
    },
    "McpUiToolCancelledNotification": {"reason": "x"},
    "McpUiHostContextChangedNotification": CONTEXT,
    "McpUiResourceTeardownRequest": {},
}  # fmt: skip
RESULTS: dict[str, tuple[str, Any]] = {
    "McpUiInitializeResult": (
        "ui/initialize",
        {
            "protocolVersion": "2026-01-26",
            "hostInfo": {"name": "x", "version": "1"},
            "hostCapabilities": CAPABILITIES,
            "hostContext": CONTEXT,
        },
    ),
    "McpUiOpenLinkResult": ("ui/open-link", {"isError": True}),
    "McpUiDownloadFileResult": ("ui/download-file", {}),
    "McpUiMessageResult": ("ui/message", {"isError": False, "more": 1}),
    "McpUiRequestDisplayModeResult": ("ui/request-display-mode", {"mode": "pip", "more": 1}),
    "McpUiResourceTeardownResult": ("ui/resource-teardown", {"more": 1}),
}


def variations(value: Any) -> Iterator[tuple[str, Any]]:
    """The value, and it with one part left out, replaced by another type, or with a member more."""
    yield "as it is", value
    if isinstance(value, dict):
        yield "another member", {**value, "another": 1}
        for name, part in value.items():
            yield f"without {name}", {key: each for key, each in value.items() if key != name}
            for how, made in variations(part):
                if how != "as it is":
                    yield f"{name}: {how}", {**value, name: made}
    elif isinstance(value, list):
        for at, part in enumerate(value):
            for how, made in variations(part):
                if how != "as it is":
                    yield f"[{at}]: {how}", [*value[:at], made, *value[at + 1 :]]
    for other in (None, 7, "other", [], {}):
        if type(other) is not type(value):
            yield f"is {other!r}", other


@pytest.fixture(scope="module")
def official(ext_apps: Path) -> dict[str, Any]:
    """The definitions of the official schema."""
    found = json.loads((ext_apps / "dist/src/generated/schema.json").read_text())
    definitions: dict[str, Any] = found["$defs"]
    _allow_a_subset_of_variables(definitions)
    return {
        name: {**definition, "$defs": {**definitions, **definition.get("$defs", {})}}
        for name, definition in definitions.items()
    }


def _allow_a_subset_of_variables(part: Any) -> None:
    """Hosts may provide any subset ("Theming", host behavior), and the generator of the schema requires all."""
    if isinstance(part, dict):
        if "--color-background-primary" in part.get("required", ()):
            del part["required"]
            part["additionalProperties"] = {"type": ["string", "null"]}  # the generator wrote "undefined" as anything
        for each in part.values():
            _allow_a_subset_of_variables(each)
    elif isinstance(part, list):
        for each in part:
            _allow_a_subset_of_variables(each)


def method_of(definition: dict[str, Any]) -> str:
    return str(definition["properties"]["method"]["const"])


@pytest.mark.peer
@pytest.mark.parametrize("name", SAMPLES)
def test_params_are_judged_as_by_the_official_schema(official: dict[str, Any], name: str) -> None:
    """The sample and each of its variations: valid here exactly where it is valid there."""
    method = method_of(official[name])
    check = problems_by(official[name])
    sender = MESSAGES[method].senders[0]
    identity = {} if MESSAGES[method].result is None else {"id": 1}
    tried = 0
    for how, params in variations(SAMPLES[name]):
        ours = problems_of({"jsonrpc": "2.0", "method": method, "params": params, **identity}, sender)
        theirs = check({"method": method, "params": params})
        assert bool(ours) == bool(theirs), (how, params, ours, theirs)
        tried += 1
    assert tried > 1


@pytest.mark.peer
@pytest.mark.parametrize("name", RESULTS)
def test_results_are_judged_as_by_the_official_schema(official: dict[str, Any], name: str) -> None:
    """As above."""
    method, sample = RESULTS[name]
    check = problems_by(official[name])
    for how, result in variations(sample):
        ours, theirs = problems_of_result(method, result), check(result)
        assert bool(ours) == bool(theirs), (how, result, ours, theirs)


@pytest.mark.peer
def test_every_message_of_the_official_schema_is_known(official: dict[str, Any]) -> None:
    """But for those between a host and its sandbox proxy."""
    named = {
        method_of(definition)
        for name, definition in official.items()
        if name.endswith(("Request", "Notification")) and "sandbox-" not in method_of(definition)
    }
    assert named - set(MESSAGES) == set()
    assert {method for method in MESSAGES if method.startswith("ui/")} == named


@pytest.mark.parametrize(
    ("message", "sender", "problem"),
    [
        ("x", "view", "not a JSON-RPC 2.0 message"),
        ({"method": "ping", "id": 1}, "view", "not a JSON-RPC 2.0 message"),
        ({"method": "ui/initialise", "id": 1, "jsonrpc": "2.0"}, "view", "no message 'ui/initialise'"),
        ({"method": "ui/notifications/tool-input", "jsonrpc": "2.0"}, "view", "a view does not send"),
        ({"method": "ui/open-link", "params": {"url": "x"}, "jsonrpc": "2.0"}, "view", "is a request"),
        ({"method": "ui/notifications/initialized", "id": 1, "jsonrpc": "2.0"}, "view", "is a notification"),
        ({"method": "ui/open-link", "id": 1, "jsonrpc": "2.0"}, "view", "has no params"),
        ({"method": "ui/open-link", "id": 1, "params": {"url": 1}, "jsonrpc": "2.0"}, "view", "ui/open-link: params: "),
    ],
)
def test_what_is_wrong_is_said(message: Any, sender: Any, problem: str) -> None:
    """For the author of a view, with the method and the path."""
    [said] = problems_of(message, sender)
    assert problem in said


def test_a_teardown_may_have_a_reason() -> None:
    """The text of the specification shows one; the official schema allows none."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ui/resource-teardown", "params": {"reason": "x"}}
    assert problems_of(message, "host") == []
    assert problems_of({"jsonrpc": "2.0", "id": 1, "method": "ping"}, "host") == []


def test_only_requests_have_results() -> None:
    """A mistake in a test of a host, and not of a view."""
    with pytest.raises(KeyError):
        problems_of_result("ui/notifications/initialized", {})
