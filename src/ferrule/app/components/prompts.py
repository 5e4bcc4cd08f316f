"""Prompts: functions as ``prompts/list`` and ``prompts/get``.

A prompt's arguments are text on the wire; each is converted to its parameter's declared type, as a tool's JSON text
would be. The function's return value becomes messages: text is one message of the user, a list is several messages,
``(role, text)`` sets the role, and each content helper is one message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ferrule.app.components.component import Component, SetSettings
from ferrule.app.components.index import ComponentIndex
from ferrule.app.components.options import PromptOptions
from ferrule.app.errors import RegistrationError, ResultError, SignatureError, ToolError
from ferrule.app.execution.invoke import call_function, check_dependencies
from ferrule.app.results.content import Content
from ferrule.app.results.result_plan import to_json_value
from ferrule.app.signatures.coercion import InvalidArguments
from ferrule.app.signatures.function import compile_function
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import InternalError, InvalidParams, MCPError
from ferrule.wire.codec import Encoded, convert, encode_str
from ferrule.wire.faults import ConvertError
from ferrule.wire.json_types import is_array, is_object, is_pair
from ferrule.wire.revisions import Revision
from ferrule.wire.types import (
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ResourceContents,
    ToolContentBlock,
)

if TYPE_CHECKING:
    pass

__all__ = ["PromptComponent", "PromptSet"]

logger = logging.getLogger("ferrule.app")


class PromptComponent(Component[PromptOptions]):
    """One registered prompt."""

    __slots__ = ()

    def definition(self) -> Prompt:
        """Return the prompt's entry in ``prompts/list``.

        Raises:
            SignatureError: a parameter's type names something undefined.
        """
        self.spec.finish()
        descriptions = self.spec.parameter_descriptions()
        arguments: list[PromptArgument] = []
        for part in self.spec.parameters:
            words = part.shape.words()
            arguments.append(
                PromptArgument(
                    part.name,
                    description=words.get("description", descriptions.get(part.name)),
                    required=True if part.required else None,
                    title=words.get("title"),
                )
            )
        return Prompt(
            self.name,
            description=self.description,
            arguments=arguments or None,
            title=self.options.title,
            icons=self.options.icons,
            meta=self.options.meta,
        )


class PromptSet:
    """The prompts of one server, and the two methods that serve them; see `ToolSet` for the arguments."""

    def __init__(self, settings: SetSettings, on_change: Callable[[], None]) -> None:
        self.index: ComponentIndex[PromptComponent] = ComponentIndex("prompt", on_change, settings.is_private)
        self._server = settings.server
        self._threads = settings.threads
        self._page_size = settings.page_size

    def add(
        self,
        function: Callable[..., Any],
        options: PromptOptions,
    ) -> PromptComponent:
        """Return the component of a newly registered function; see `MCPServer.prompt`.

        Raises:
            SignatureError: the function cannot be served.
            RegistrationError: the name is taken or empty.
        """
        spec = compile_function(function, allows_secrets=False)
        if spec.kind not in ("sync", "async"):
            raise SignatureError("a generator cannot be a prompt; return a list of messages", function=spec.name)
        name = spec.name if options.name is None else options.name
        if not name or name == "<lambda>":
            raise RegistrationError("A prompt needs a name: app.prompt(name=…)")
        component = PromptComponent(spec, name, options)
        check_dependencies(spec)
        self.index.guard(component)
        self.index.add(name, component)
        self.serve()
        return component

    def serve(self) -> None:
        """Register the handlers of ``prompts/list`` and ``prompts/get``, unless they are registered."""
        if self._server.get_request_handler("prompts/get") is None:
            self._server.add_request_handler("prompts/list", self._list, trusted=True)
            self._server.add_request_handler("prompts/get", self._get, trusted=True)

    async def get(self, ctx: ServerRequestContext[Any], name: str, arguments: dict[str, str] | None) -> GetPromptResult:
        """Return the messages of a prompt for the sender of a request.

        Raises:
            InvalidParams: there is no such prompt, or its arguments do not fit ("Prompts", error handling).
            InsufficientScope: the token lacks a scope.
            MCPError: the function raised `ToolError`; with its text.
            InternalError: the function returned something that is not a message.
        """
        prompt = self.index.live.get(name)
        if prompt is None or (prompt.guard is not None and not prompt.guard.is_visible(ctx)):
            raise self.index.unknown(name, ctx)
        self._check_scopes(prompt, ctx, arguments)
        if prompt.mount_path is None:
            return await self._fill_in(prompt, ctx, arguments)
        params = {"name": name, "arguments": arguments or {}}
        filled = prompt.mount_path.run(
            ctx, "prompts/get", params, lambda inner, params: self._fill_in(prompt, inner, params.get("arguments"))
        )
        return cast("GetPromptResult", await filled)

    async def _fill_in(
        self, prompt: PromptComponent, ctx: ServerRequestContext[Any], arguments: dict[str, str] | None
    ) -> GetPromptResult:
        if prompt.mount_path is not None and prompt.mount_path.has_middleware:  # it may have changed the arguments
            self._check_scopes(prompt, ctx, arguments)
        try:
            value = await call_function(prompt.spec, arguments or {}, ctx, self._threads)
        except InvalidArguments as error:
            raise _refusal(prompt, error) from error
        except ToolError as error:
            raise MCPError(error.text) from error
        if isinstance(value, GetPromptResult | InputRequiredResult):
            return cast("GetPromptResult", value)
        try:
            return GetPromptResult(_messages(value), description=prompt.description)
        except (ResultError, ValueError) as error:
            raise InternalError() from error

    @staticmethod
    def _check_scopes(
        prompt: PromptComponent, ctx: ServerRequestContext[Any], arguments: dict[str, str] | None
    ) -> None:
        if prompt.guard is not None:
            try:
                prompt.guard.check(ctx, lambda: prompt.bind(arguments))
            except InvalidArguments as error:
                raise _refusal(prompt, error) from error

    async def _get(self, ctx: ServerRequestContext[Any]) -> Any:
        return await self.get(ctx, ctx.params.name, ctx.params.arguments)

    async def _list(self, ctx: ServerRequestContext[Any]) -> Encoded:
        return self.index.page(ctx, ctx.params.cursor, self._page_size, _prompts_page)


def _refusal(prompt: PromptComponent, error: InvalidArguments) -> InvalidParams:
    return InvalidParams(f"Invalid arguments for prompt `{prompt.name}`:\n{error}")


def _prompts_page(members: list[PromptComponent], next_cursor: str | None, _: Revision) -> ListPromptsResult:
    listed: list[Prompt] = []
    for member in members:
        try:
            listed.append(member.definition())
        except SignatureError as error:  # it was registered while the server runs, after the check at the start
            logger.error("Prompt %r is left out of the list, since it cannot be described: %s", member.name, error)
    return ListPromptsResult(listed, next_cursor=next_cursor)


def _messages(value: Any) -> list[PromptMessage]:
    if is_array(value) and not _is_role_pair(value):
        return [_message(item) for item in value]
    return [_message(value)]


def _message(value: Any) -> PromptMessage:
    if isinstance(value, PromptMessage):
        return value
    if _is_role_pair(value):
        return PromptMessage(value[0], _block(value[1]))
    if is_object(value) and value.keys() == {"role", "content"}:
        content: Any = value["content"]
        if isinstance(content, dict):
            try:
                content = convert(content, ToolContentBlock)
            except ConvertError as error:
                raise ResultError(f"a message's content is not a content block: {error}") from error
        return PromptMessage(value["role"], _block(content))
    return PromptMessage("user", _block(value))


def _is_role_pair(value: Any) -> bool:
    return is_pair(value) and value[0] in ("user", "assistant")


def _block(value: Any) -> ToolContentBlock:
    if isinstance(value, ToolContentBlock):
        return value
    if isinstance(value, Content):
        return value.block()
    if isinstance(value, ResourceContents):
        return ToolContentBlock("resource", resource=value)
    return ToolContentBlock("text", value if isinstance(value, str) else encode_str(to_json_value(value)))
