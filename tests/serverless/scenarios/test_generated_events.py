"""Events with members of any type, or without some: answered, or refused as malformed, and the next event works."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import MCPServer
from ferrule.serverless import handler
from ferrule.serverless.events import MalformedEvent
from tests.serverless.events import FORMS, HOST, event, modern

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", "\0", "%ff"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def make_app() -> MCPServer[Any]:
    """One tool."""
    app: MCPServer[Any] = MCPServer("events")

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    return app


HANDLER = handler(make_app(), allowed_hosts=[HOST])


def changed(draw: Any, value: Any) -> Any:
    """The value with some members left out, or replaced by anything."""
    if draw(st.integers(0, 9)) == 0:
        return draw(ANYTHING)
    if isinstance(value, dict):
        return {name: changed(draw, each) for name, each in value.items() if draw(st.integers(0, 19))}
    return value


@settings(max_examples=150, deadline=None)
@given(data=st.data(), form=st.sampled_from(FORMS))
def test_any_event_is_answered_or_refused(data: st.DataObject, form: str) -> None:
    message, headers = modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    good = event(form, message, headers)
    try:
        answer = HANDLER(changed(data.draw, good), None)
    except MalformedEvent:
        pass
    else:
        assert 200 <= answer["statusCode"] < 500
    assert json.loads(HANDLER(good, None)["body"])["result"]["structuredContent"] == 3


@pytest.mark.parametrize("form", FORMS)
def test_a_path_that_is_no_unicode_has_no_endpoint(form: str) -> None:
    message, headers = modern("tools/list")
    assert HANDLER(event(form, message, headers, path="/\ud800"), None)["statusCode"] == 404
