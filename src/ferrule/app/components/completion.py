"""Completion of prompt arguments and template variables.

The values of a ``Literal`` or enum parameter are completed without a function. For any other parameter a function is
registered for one argument of one prompt or template. Its parameters are the typed text and, if it declares them,
``arguments`` (the ones already filled in) and a `Context`. At most 100 values are sent (2026-07-28, "Completion"); the
total is sent too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from msgspec import ValidationError

from ferrule.app.components.index import OnDuplicate, shown_name
from ferrule.app.errors import RegistrationError, SignatureError
from ferrule.app.execution.invoke import call_function
from ferrule.app.execution.threads import WorkerThreads
from ferrule.app.signatures.coercion import ArgumentProblem, InvalidArguments, lenient
from ferrule.app.signatures.function import FunctionSpec, compile_function
from ferrule.app.signatures.shapes import FieldShape, Shape, flat_members
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import InvalidParams
from ferrule.wire.codec import encode_str, to_builtins
from ferrule.wire.types import CompleteResult, Completion, PromptReference

if TYPE_CHECKING:
    from ferrule.app.components.component import Component
    from ferrule.app.components.mount_path import MountPath
    from ferrule.app.components.prompts import PromptComponent, PromptSet
    from ferrule.app.components.resources import ResourceComponent, ResourceSet
    from ferrule.kernel.server import Server

__all__ = ["MAX_VALUES", "CompletionSet"]

MAX_VALUES = 100
"""Maximum number of values in one result ("Completion")."""


class CompletionSet:
    """The completers of one server, and ``completion/complete``."""

    def __init__(self, server: Server[Any], prompts: PromptSet, resources: ResourceSet, threads: WorkerThreads) -> None:
        self._server = server
        self._prompts = prompts
        self._resources = resources
        self._threads = threads
        self._completers: dict[tuple[str, str], tuple[FunctionSpec, MountPath | None]] = {}
        self.followers: list[Callable[[], None]] = []
        self.on_duplicate: OnDuplicate = "error"

    def add(self, owner: str, argument: str, function: Callable[..., Any]) -> None:
        """Register a completer; see `MCPServer.complete`.

        Args:
            owner: the prompt's name or the template's text.
            argument: the name of the argument or variable.
            function: the completer.

        Raises:
            SignatureError: the function's first parameter is not the typed text, or it has unknown parameters.
            RegistrationError: the argument already has a completer.
        """
        spec = compile_function(function)
        names = [part.name for part in spec.parameters]
        if not names or names[0] == "arguments" or set(names[1:]) - {"arguments"}:
            raise SignatureError(
                "a completer takes the typed text, and may take `arguments` and a Context", function=spec.name
            )
        if (owner, argument) in self._completers and self.on_duplicate == "error":
            raise RegistrationError(f"There is already a completer for {argument!r} of {owner!r}")
        self._completers[owner, argument] = spec, None
        self.serve()
        for follower in self.followers:
            follower()

    def take_over(
        self,
        other: CompletionSet,
        prompt_name: Callable[[str], str],
        template_uri: Callable[[str], str],
        mount_path: Callable[[MountPath | None], MountPath],
    ) -> None:
        """Register the completers of a mounted server under the names of its prompts and templates in this server.

        Args:
            other: the completers of the mounted server.
            prompt_name, template_uri: function from a name or URI in the mounted server to the one in this server.
            mount_path: function from the path to a completer in ``other`` to its path from this server.
        """
        for (owner, argument), (spec, inner) in other._completers.items():
            name = template_uri(owner) if owner in other._resources.templates else prompt_name(owner)
            self._completers[name, argument] = spec, mount_path(inner)
        if other._server.get_request_handler("completion/complete") is not None:
            self.serve()
        for follower in self.followers:
            follower()

    def serve(self) -> None:
        """Register the handler of ``completion/complete``, which announces the capability.

        Called when the first argument can be completed, in this server or in a server mounted in it.
        """
        self._server.add_request_handler("completion/complete", self._complete, trusted=True)

    def notice(self, spec: FunctionSpec) -> None:
        """Announce the capability if a parameter of ``spec`` is a ``Literal`` or an enum."""
        if any(member.values for part in spec.parameters for member in flat_members(part.shape)):
            self.serve()

    async def _complete(self, ctx: ServerRequestContext[Any]) -> CompleteResult:
        owner, component = self._owner(ctx.params.ref, ctx)
        name = ctx.params.argument.name
        parameter = next((part for part in component.spec.finish().parameters if part.name == name), None)
        if parameter is None:
            raise InvalidParams(f"{owner} has no argument {shown_name(name)!r}")
        if component.guard is not None:  # values of a protected component are as secret as the component
            context = ctx.params.context
            filled: Mapping[str, Any] = {} if context is None else context.arguments or {}
            typed = ctx.params.argument.value
            if not component.guard.check_completion(ctx, lambda: _known(component, filled, parameter, typed)):
                return CompleteResult(Completion([]))
        completer, mount_path = self._completers.get((owner, name), (None, component.mount_path))

        async def answer(inner: ServerRequestContext[Any], _: Mapping[str, Any]) -> CompleteResult:
            return CompleteResult(await self._values(completer, parameter, inner))

        if mount_path is None:
            return await answer(ctx, {})
        return cast("CompleteResult", await mount_path.run(ctx, ctx.method, to_builtins(ctx.params), answer))

    async def _values(
        self, completer: FunctionSpec | None, parameter: FieldShape, ctx: ServerRequestContext[Any]
    ) -> Completion:
        params = ctx.params
        typed = params.argument.value
        if completer is not None:
            filled: Mapping[str, str] = (params.context.arguments if params.context is not None else None) or {}
            return await self._run_completer(completer, typed, filled, ctx)
        return _bounded([text for text in _choices(parameter.shape) if text.startswith(typed)])

    def _owner(self, ref: Any, ctx: ServerRequestContext[Any]) -> tuple[str, PromptComponent | ResourceComponent]:
        if isinstance(ref, PromptReference):
            prompt = self._prompts.index.live.get(ref.name)
            if prompt is None or not _is_visible(prompt, ctx):
                raise self._prompts.index.unknown(ref.name, ctx)
            return ref.name, prompt
        template = self._resources.templates.live.get(ref.uri)
        if template is None or not _is_visible(template, ctx):
            found = self._resources.find(ref.uri, lambda guard: guard.is_visible(ctx))
            if found is None:
                raise InvalidParams(f"Unknown resource template: {shown_name(ref.uri)}")
            template = found[0]
        return template.uri, template

    async def _run_completer(
        self, completer: FunctionSpec, typed: str, filled: Mapping[str, str], ctx: ServerRequestContext[Any]
    ) -> Completion:
        names = [part.name for part in completer.parameters]
        arguments: dict[str, Any] = {names[0]: typed}
        if "arguments" in names[1:]:
            arguments["arguments"] = dict(filled)
        value = await call_function(completer, arguments, ctx, self._threads)
        if isinstance(value, Completion):
            return value if len(value.values) <= MAX_VALUES else _bounded(value.values, value.total)
        if isinstance(value, str):  # one value, and not its letters
            value = [value]
        return _bounded([str(item) for item in cast("Iterable[Any]", value or ())])


def _known(component: Component[Any], filled: Mapping[str, Any], completed: FieldShape, typed: str) -> dict[str, Any]:
    """Return the known arguments, converted as for the function of the component.

    What is typed so far is left out while it is no value of its type.

    Raises:
        InvalidArguments: an argument that is filled in does not fit its parameter.
    """
    known: dict[str, Any] = {}
    for part in component.spec.parameters:
        try:
            if part is completed:
                known[part.name] = lenient(typed, part.shape)
            elif part.name in filled:
                known[part.name] = lenient(filled[part.name], part.shape)
        except (ValidationError, RecursionError) as error:
            if part is not completed:
                raise InvalidArguments([ArgumentProblem(part.name, "no value of its type")], part.name) from error
    return known


def _choices(shape: Shape) -> list[str]:
    """Return the texts of a closed set of values: exactly those that are accepted as the argument."""
    found: list[str] = []
    for member in flat_members(shape):
        for value in member.values:
            plain = value.value if isinstance(value, Enum) else value
            if plain is None:
                continue
            text = plain if isinstance(plain, str) else encode_str(plain)
            try:
                lenient(text, shape)
            except ValidationError:
                continue
            if text not in found:
                found.append(text)
    return found


def _is_visible(component: Component[Any], ctx: ServerRequestContext[Any]) -> bool:
    return component.guard is None or component.guard.is_visible(ctx)


def _bounded(values: list[str], total: int | None = None) -> Completion:
    """Return a completion with the first `MAX_VALUES` values (2025-11-25, "Completion").

    Args:
        values: all values that the completer returned.
        total: the number of all possible values, if the completer set it; ``None`` for the number of ``values``.
    """
    if len(values) <= MAX_VALUES:
        return Completion(values, total=len(values) if total is None else total)
    return Completion(values[:MAX_VALUES], total=total or len(values), has_more=True)
