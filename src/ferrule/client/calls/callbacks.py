"""The handlers of a server's requests to its client: elicitation, sampling and roots.

One set of handlers serves both eras: a legacy server's requests and a modern server's input rounds. The client
declares the capabilities that it has handlers for. Any other request is refused with the error that the specification
names, before a handler is called.

A handler takes the request's params, and a `ServerQuestion` if it has a second parameter. It may be sync (it runs in
the event loop, so it should be quick) or async, and may return a plain value instead of the specification's type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ferrule.client.settings import ElicitationHandler, ExtensionRequestHandler, Roots, SamplingHandler
from ferrule.kernel.signatures import parameters_of
from ferrule.protocol.errors import InternalError, InvalidParams, MCPError, MethodNotFound
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.faults import ConvertError
from ferrule.wire.revisions import Revision
from ferrule.wire.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    Root,
    text_block,
)

__all__ = ["QuestionHandlers", "SamplingRefused", "ServerQuestion"]


@dataclass(frozen=True, slots=True)
class ServerQuestion:
    """The server that asks a question, and the question's context.

    Attributes:
        server: the client's name for the server, to be shown to the user.
        protocol_version: the revision in use.
        key: the question's key in its input round; ``None`` for a legacy request.
        meta: the params' ``_meta``.
    """

    server: str
    protocol_version: str
    key: str | None
    meta: Mapping[str, Any]


_ROOTS_CHANGED = "notifications/roots/list_changed"


class SamplingRefused(MCPError):
    """The user refused to let the server use the model (-1 on the wire, legacy; in 2026-07-28 the call just ends)."""

    default_code = -1

    def __init__(self, message: str = "User rejected sampling request") -> None:
        super().__init__(message)


class QuestionHandlers:
    """The handlers of one client.

    Args:
        elicitation: asks the user.
        elicitation_modes: the modes that ``elicitation`` supports: ``"form"``, ``"url"`` or both.
        sampling: asks the model.
        sampling_tools: whether ``sampling`` can offer tools to the model.
        roots: the roots, or a function that returns them.

    Attributes:
        of_extensions: the handlers of requests that extensions define, by method.
    """

    def __init__(
        self,
        *,
        elicitation: ElicitationHandler | None = None,
        elicitation_modes: Iterable[str] = ("form",),
        sampling: SamplingHandler | None = None,
        sampling_tools: bool = False,
        roots: Roots | None = None,
    ) -> None:
        self._elicitation = None if elicitation is None else _two_arguments(elicitation)
        self._modes = frozenset(elicitation_modes)
        self._sampling = None if sampling is None else _two_arguments(sampling)
        self._sampling_tools = sampling_tools
        self._roots = roots
        self.of_extensions: dict[str, ExtensionRequestHandler] = {}
        if not self._modes or not self._modes <= {"form", "url"}:
            raise ValueError("elicitation_modes are 'form', 'url' or both")

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capabilities to declare to a server of ``revision``."""
        found: dict[str, Any] = {}
        if self._elicitation is not None:
            found["elicitation"] = {mode: {} for mode in sorted(self._modes)}
        if self._sampling is not None:
            found["sampling"] = {"tools": {}} if self._sampling_tools else {}
        if self._roots is not None:
            found["roots"] = {"listChanged": True} if _ROOTS_CHANGED in revision.notifications else {}
        return found

    async def answer(self, method: str, params: Mapping[str, Any] | None, question: ServerQuestion) -> dict[str, Any]:
        """Return the bare result for one request of the server, as JSON.

        Raises:
            MethodNotFound: the client has no handler for it.
            InvalidParams: the params are malformed, or use a capability that was not declared.
            MCPError: the handler raised it; the server receives it unchanged.
        """
        if method == "elicitation/create" and self._elicitation is not None:
            return await self._elicit(params, question)
        if method == "sampling/createMessage" and self._sampling is not None:
            return await self._sample(params, question)
        if method == "roots/list" and self._roots is not None:
            return cast("dict[str, Any]", to_builtins(ListRootsResult(await self._list_roots())))
        if method in self.of_extensions:
            answer = await _awaited(_two_arguments(self.of_extensions[method])(params or {}, question))
            return {} if answer is None else cast("dict[str, Any]", to_builtins(answer))
        raise MethodNotFound(method)

    async def _elicit(self, params: Mapping[str, Any] | None, question: ServerQuestion) -> dict[str, Any]:
        typed = _typed(params, ElicitRequestParams, "elicitation/create")
        if (typed.mode or "form") not in self._modes:
            raise InvalidParams(f"This client did not declare elicitation in {typed.mode or 'form'} mode")
        answer = await _awaited(cast("Callable[..., Any]", self._elicitation)(typed, question))
        return _shaped(_elicit_result(answer), ElicitResult, "elicitation")

    async def _sample(self, params: Mapping[str, Any] | None, question: ServerQuestion) -> dict[str, Any]:
        typed = _typed(params, CreateMessageRequestParams, "sampling/createMessage")
        if not self._sampling_tools and (typed.tools is not None or typed.tool_choice is not None):
            raise InvalidParams("This client did not declare sampling with tools")
        answer = await _awaited(cast("Callable[..., Any]", self._sampling)(typed, question))
        if isinstance(answer, str):
            answer = CreateMessageResult(
                role="assistant", content=text_block(answer), model="unknown", stop_reason="endTurn"
            )
        return _shaped(answer, CreateMessageResult, "sampling")

    async def _list_roots(self) -> list[Root]:
        roots: Any = self._roots
        if callable(roots):
            roots = await _awaited(roots())
        return [_root(root) for root in roots]


def _elicit_result(answer: Any) -> Any:
    """Return the plain value of a handler as an `ElicitResult`; see `ElicitationHandler` for the values."""
    if answer is None:
        return ElicitResult("decline")
    if isinstance(answer, Mapping) and "action" not in cast("Mapping[str, Any]", answer):
        return {"action": "accept", "content": cast("Mapping[str, Any]", answer)}
    return cast("Any", answer)


def _root(root: Any) -> Root:
    if isinstance(root, Root):
        return root
    if isinstance(root, str) and "://" in root:
        return Root(root)
    path = Path(root).absolute()
    return Root(path.as_uri(), name=path.name or None)


def _two_arguments(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes params and question, and calls a handler with as many of them as it accepts."""
    try:
        parameters = parameters_of(handler)
    except (TypeError, ValueError):
        return handler
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_two = len(positional) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if takes_two:
        return handler

    def with_params_only(params: Any, question: ServerQuestion) -> Any:
        return handler(params)

    return with_params_only


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _typed(params: Mapping[str, Any] | None, type_: Any, method: str) -> Any:
    try:
        return convert(dict(params or {}), type_)
    except ConvertError as error:
        raise InvalidParams(f"Invalid params for {method}: {error}") from error


def _shaped(answer: Any, type_: Any, what: str) -> dict[str, Any]:
    """Return a handler's answer as JSON, checked against the type of the specification.

    Raises:
        InternalError: the answer does not fit; it is this program's mistake, and is not sent.
    """
    raw = to_builtins(answer)
    try:
        convert(raw, type_)
    except ConvertError as error:
        raise InternalError from ValueError(f"The {what} handler gave something malformed: {error}")
    return cast("dict[str, Any]", raw)
