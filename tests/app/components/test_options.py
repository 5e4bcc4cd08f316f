"""The options of components, as values and as keyword arguments."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.app.components.keywords import PromptKeywords, ResourceKeywords, ToolKeywords
from ferrule.app.components.options import PromptOptions, ResourceOptions, ToolOptions

KINDS = [(ToolOptions, ToolKeywords), (ResourceOptions, ResourceKeywords), (PromptOptions, PromptKeywords)]


@pytest.mark.parametrize(("options", "keywords"), KINDS, ids=lambda kind: kind.__name__)
def test_keyword_arguments_are_the_fields_of_the_value(options: Any, keywords: Any):
    """The decorators take the one and registering carries the other, so an option must stand in both, as one type."""
    fields = {name: hint for base in options.__mro__ for name, hint in vars(base).get("__annotations__", {}).items()}
    named = {name: getattr(hint, "__forward_arg__", hint) for name, hint in keywords.__annotations__.items()}
    assert named == fields


def test_options_do_not_change_after_registration():
    """A component, its copies in other servers and its definition read the same value."""
    app: MCPServer[Any] = MCPServer("x")
    tool = app.add_tool(lambda: "x", name="t", title="T", tags=["a"])
    assert (tool.options.title, tool.tags) == ("T", {"a"})
    with pytest.raises(AttributeError):
        tool.options.title = "other"  # pyright: ignore[reportAttributeAccessIssue]  # what is tested


def test_a_mounted_copy_has_the_options_of_its_original():
    """Also after it was removed and registered again with others."""
    inner: MCPServer[Any] = MCPServer("inner")
    app: MCPServer[Any] = MCPServer("outer")
    inner.add_resource("data://x", lambda: "x", title="first")
    app.mount(inner, prefix="in")
    copy = app.resources.fixed.get("data://in/x")
    assert copy is not None
    assert copy.options is inner.resources.fixed.live["data://x"].options
    inner.remove_resource("data://x")
    inner.add_resource("data://x", lambda: "x", title="second")
    assert [resource.title for resource in app.list_resources()] == ["second"]


def test_every_option_has_a_default():
    """``@app.tool`` alone is a registration."""
    for options, _ in KINDS:
        assert options().name is None
