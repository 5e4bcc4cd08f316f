"""The tools and prompts of the old ``FastMCP``, with the managers that keep them."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from ferrule_compat.content import as_json
from ferrule_compat.exceptions import ToolError, UrlElicitationRequiredError
from ferrule_compat.functions import FuncMetadata
from ferrule_compat.models import Model
from ferrule_compat.wire_types import find

__all__ = [
    "AssistantMessage",
    "Message",
    "Prompt",
    "PromptManager",
    "Tool",
    "ToolManager",
    "UserMessage",
    "name_of",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")


def name_of(function: Any, name: str | None) -> str:
    """Return the name under which a function is registered.

    Raises:
        ValueError: it is a lambda without a name.
    """
    found = name or getattr(function, "__name__", "") or type(function).__name__
    if found == "<lambda>":
        raise ValueError("You must provide a name for lambda functions")
    return str(found)


class Registered(Generic[T]):
    """Components by name; the first of two with one name stays."""

    def __init__(self, kind: str, warn: bool) -> None:
        self.kind = kind
        self.warn = warn
        self.members: dict[str, T] = {}

    def add(self, key: str, member: T) -> T:
        """Return the component that is registered under a key now."""
        if key in self.members and self.warn:
            logger.warning("%s already exists: %s", self.kind, key)
        return self.members.setdefault(key, member)


class Tool:
    """One registered tool."""

    def __init__(
        self,
        fn: Callable[..., Any],
        name: str,
        description: str = "",
        title: str | None = None,
        annotations: Any = None,
        icons: list[Any] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> None:
        self.fn = fn
        self.name = name
        self.title = title
        self.description = description
        self.annotations = annotations
        self.icons = icons
        self.meta = meta
        self.fn_metadata = FuncMetadata(fn, structured_output)
        self.parameters = self.fn_metadata.parameters
        self.context_kwarg = self.fn_metadata.context_kwarg
        inner = fn.func if isinstance(fn, functools.partial) else fn
        self.is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
            getattr(inner, "__call__", None)  # noqa: B004 - a callable object
        )

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of the structured result; ``None`` without one."""
        return self.fn_metadata.output_schema

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        context_kwarg: str | None = None,
        annotations: Any = None,
        icons: list[Any] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> Tool:
        """Return a tool made of a function."""
        described = description or fn.__doc__ or ""
        return cls(fn, name_of(fn, name), described, title, annotations, icons, meta, structured_output)

    def definition(self) -> Any:
        """Return the tool's entry in the list."""
        return find("Tool")(
            name=self.name,
            title=self.title,
            description=self.description,
            inputSchema=self.parameters,
            outputSchema=self.output_schema,
            annotations=self.annotations,
            icons=self.icons,
            _meta=self.meta,
        )

    async def run(self, arguments: Mapping[str, Any], context: Any = None, convert_result: bool = False) -> Any:
        """Return the result of a call.

        Raises:
            ToolError: it failed; the text begins with the tool's name.
        """
        try:
            kwargs = self.fn_metadata.bind(arguments, reads_json=True)
            if self.context_kwarg is not None:
                kwargs[self.context_kwarg] = context
            # On the event loop, as the old SDK did: a server may keep what belongs to one thread.
            found = self.fn_metadata.spec.call_with(**kwargs)
            if inspect.isawaitable(found):
                found = await found
            return self.fn_metadata.convert_result(found) if convert_result else found
        except UrlElicitationRequiredError:
            raise
        except Exception as error:
            raise ToolError(f"Error executing tool {self.name}: {error}") from error


class ToolManager:
    """The tools of a server by name."""

    def __init__(self, warn_on_duplicate_tools: bool = True, *, tools: list[Tool] | None = None) -> None:
        self._registered: Registered[Tool] = Registered("Tool", warn_on_duplicate_tools)
        self._tools = self._registered.members
        for tool in tools or ():
            self._registered.add(tool.name, tool)

    def add_tool(
        self,
        fn: Callable[..., Any],
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: Any = None,
        icons: list[Any] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> Tool:
        """Return the tool that is registered under the name now."""
        made = Tool.from_function(fn, name, title, description, None, annotations, icons, meta, structured_output)
        return self._registered.add(made.name, made)

    def get_tool(self, name: str) -> Tool | None:
        """Return a tool; ``None`` if there is none."""
        return self._tools.get(name)

    def list_tools(self) -> list[Tool]:
        """Return all tools."""
        return list(self._tools.values())

    def remove_tool(self, name: str) -> None:
        """Remove a tool; raises `ToolError` if there is none."""
        if self._tools.pop(name, None) is None:
            raise ToolError(f"Unknown tool: {name}")

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], context: Any = None, convert_result: bool = False
    ) -> Any:
        """Return the result of a call; raises as `Tool.run`, and for an unknown tool."""
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"Unknown tool: {name}")
        return await tool.run(arguments, context=context, convert_result=convert_result)


class Message(Model):
    """A message of a prompt; text becomes a text block."""

    role: str
    content: Any

    def __init__(self, content: Any = None, role: str = "user", **more: Any) -> None:
        text = find("TextContent")(text=content) if isinstance(content, str) else content
        made = find("PromptMessage")(role=role, content=text)
        super().__init__(role=role, content=made.content, **more)


class UserMessage(Message):
    """A message of the user."""


class AssistantMessage(Message):
    """A message of the model."""

    def __init__(self, content: Any = None, role: str = "assistant", **more: Any) -> None:
        super().__init__(content, role, **more)


class Prompt:
    """One registered prompt; ``arguments`` have ``name``, ``description`` and ``required``."""

    def __init__(
        self,
        fn: Callable[..., Any],
        name: str,
        title: str | None = None,
        description: str | None = None,
        arguments: list[Any] | None = None,
        icons: list[Any] | None = None,
        context_kwarg: str | None = None,
    ) -> None:
        self.fn = fn
        self.name = name
        self.title = title
        self.description = description
        self.icons = icons
        self._metadata = FuncMetadata(fn, structured_output=False)
        self.context_kwarg = context_kwarg or self._metadata.context_kwarg
        schema = self._metadata.parameters
        required = schema.get("required", ())
        described = schema["properties"].items()
        self.arguments = arguments or [
            find("PromptArgument")(name=key, description=each.get("description"), required=key in required)
            for key, each in described
        ]

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Any] | None = None,
        context_kwarg: str | None = None,
    ) -> Prompt:
        """Return a prompt made of a function."""
        described = description or fn.__doc__ or ""
        return cls(fn, name_of(fn, name), title, described, None, icons, context_kwarg)

    def definition(self) -> Any:
        """Return the prompt's entry in the list."""
        return find("Prompt")(
            name=self.name,
            title=self.title,
            description=self.description,
            arguments=self.arguments,
            icons=self.icons,
        )

    async def render(self, arguments: Mapping[str, Any] | None = None, context: Any = None) -> list[Message]:
        """Return the messages for some arguments.

        Raises:
            ValueError: an argument is missing or does not fit, or the function failed.
        """
        given = dict(arguments or {})
        missing = {each.name for each in self.arguments if each.required} - given.keys()
        if missing:
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            kwargs = self._metadata.bind(given)
            if self.context_kwarg is not None:
                kwargs[self.context_kwarg] = context
            found = self._metadata.spec.call_with(**kwargs)
            if inspect.isawaitable(found):
                found = await found
            return [_message(each) for each in (found if isinstance(found, list | tuple) else [found])]
        except Exception as error:
            raise ValueError(f"Error rendering prompt {self.name}: {error}") from error


def _message(value: Any) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, find("PromptMessage")):
        return Message(value.content, value.role)
    if isinstance(value, Mapping) and "content" in value:
        return Message(**value)
    return UserMessage(value if isinstance(value, str) else as_json(value))


class PromptManager:
    """The prompts of a server by name."""

    def __init__(self, warn_on_duplicate_prompts: bool = True) -> None:
        self._registered: Registered[Prompt] = Registered("Prompt", warn_on_duplicate_prompts)
        self._prompts = self._registered.members

    def add_prompt(self, prompt: Prompt) -> Prompt:
        """Return the prompt that is registered under the name now."""
        return self._registered.add(prompt.name, prompt)

    def get_prompt(self, name: str) -> Prompt | None:
        """Return a prompt; ``None`` if there is none."""
        return self._prompts.get(name)

    def list_prompts(self) -> list[Prompt]:
        """Return all prompts."""
        return list(self._prompts.values())
