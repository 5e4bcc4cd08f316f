"""What a server may ask of its client: elicitation, sampling, roots, and what to answer.

One set of handlers serves both eras: a legacy server's requests and a modern server's input rounds. The client
declares exactly what it has handlers for; a question outside that is refused as the specification says, before any
handler sees it.

A handler takes the question's params, and if it has a second parameter the `ServerQuestion` around it. It may be sync
(then it should be quick: it runs in the event loop) or async, and may give a plain value instead of the wire's type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ferrule.client.settings import ElicitationHandler, Roots, SamplingHandler
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
    """Who asks, and in what connection.

    Attributes:
        server: what the client calls the server (show it to the user).
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
        elicitation_modes: what ``elicitation`` can do: ``"form"``, ``"url"`` or both.
        sampling: asks the model.
        sampling_tools: whether ``sampling`` can offer tools to the model.
        roots: what to show.
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
        if not self._modes or not self._modes <= {"form", "url"}:
            raise ValueError("elicitation_modes are 'form', 'url' or both")

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return what to declare to a server of ``revision``."""
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
            InvalidParams: malformed, or beyond what was declared.
            MCPError: what a handler raised for the server to see.
        """
        if method == "elicitation/create" and self._elicitation is not None:
            return await self._elicit(params, question)
        if method == "sampling/createMessage" and self._sampling is not None:
            return await self._sample(params, question)
        if method == "roots/list" and self._roots is not None:
            return cast("dict[str, Any]", to_builtins(ListRootsResult(await self._list_roots())))
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
    """The wire's shape of the plain values that a handler may give."""
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
    """A handler that is always called with params and question."""
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

    A malformed answer is the mistake of this program, and is not sent.
    """
    raw = to_builtins(answer)
    try:
        convert(raw, type_)
    except ConvertError as error:
        raise InternalError from ValueError(f"The {what} handler gave something malformed: {error}")
    return cast("dict[str, Any]", raw)
