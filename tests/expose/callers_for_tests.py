"""A caller with prepared responses, and a client of a server whose tools are operations of a document."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ferrule import Client, MCPServer
from ferrule.expose.exchange import ApiRequest, ApiResponse, Origin
from ferrule.expose.openapi import from_openapi
from tests.expose.documents import document

__all__ = ["AnsweringCaller", "answer", "call", "exposing"]

BASE_URL = "https://api.example/v1"


def answer(value: Any = None, *, status: int = 200, **headers: str) -> ApiResponse:
    """Return an answer; bytes and text are its body, anything else is JSON. ``_`` in a header's name is ``-``."""
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    if isinstance(value, bytes):
        body = value
    elif isinstance(value, str):
        body = value.encode()
    else:
        body = b"" if value is None else json.dumps(value).encode()
        given.setdefault("content-type", "application/json")
    return ApiResponse(status=status, headers=tuple(given.items()), body=body)


class AnsweringCaller:
    """Keeps each request, and answers with the next answer, the last one again and again."""

    def __init__(self, *answers: ApiResponse | Callable[[ApiRequest], ApiResponse]) -> None:
        self.requests: list[ApiRequest] = []
        self._answers = list(answers or [answer({})])

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        self.requests.append(request)
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        response = found(request) if callable(found) else found
        cut = len(response.body) > max_bytes
        return ApiResponse(status=response.status, headers=response.headers, body=response.body[:max_bytes], is_cut=cut)

    async def aclose(self) -> None:
        return


def exposing(
    raw: Mapping[str, Any],
    caller: AnsweringCaller,
    *,
    path: str = "/x",
    method: str = "get",
    parts: Mapping[str, Any] | None = None,
    **options: Any,
) -> MCPServer[Any]:
    """Return a server with one operation, whose id is ``it``."""
    given = document({path: {method: {"operationId": "it", **raw}}}, **(parts or {}))
    options.setdefault("include", "*")
    return from_openapi(given, base_url=BASE_URL, caller=caller, **options)


async def call(server: MCPServer[Any], **arguments: Any) -> Any:
    """Return the result of the operation."""
    async with Client(server) as client:
        return await client.call_tool("it", arguments)
