"""Calls of tools: mirrored headers, the check against the output schema, and the typed outcome."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ferrule.client.calls.results import ToolCallResult
from ferrule.client.errors import BadServerResponse, TooManyPages
from ferrule.protocol.errors import RemoteError, RequestTimeout
from ferrule.wire.faults import FerruleError
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.types import ToolResult

if TYPE_CHECKING:
    from ferrule.client.calls.lists import ResultReader

__all__ = ["SendCall", "ToolCalls", "ToolResults"]

logger = logging.getLogger("ferrule.client")

SendCall: TypeAlias = Callable[[dict[str, Any], Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a ``tools/call`` with these params and options, and returns its raw result, however the server gives it."""


class ToolResults:
    """Makes typed outcomes of raw results of tools.

    Args:
        reader: gives results their types, and lists tools.
        validates: check structured results of tools that the program has listed against their schemas.
        label: returns what to call the server.
    """

    def __init__(self, reader: ResultReader, validates: bool, label: Callable[[], str]) -> None:
        self.validates = validates
        self._reader = reader
        self._metadata = reader.metadata
        self._label = label

    async def read(self, name: str, raw: Mapping[str, Any], result_type: Any) -> ToolCallResult:
        """Return a successful or failed result for the program, checked against the schema that it has seen.

        Raises:
            BadServerResponse: the result is malformed.
            InvalidToolOutput: it breaks the schema.
        """
        return await self.outcome(name, self._reader.typed(raw, ToolResult, "tools/call"), result_type)

    async def outcome(self, name: str, result: ToolResult, result_type: Any) -> ToolCallResult:
        """Return the outcome of a result that has its type; see `read`."""
        called = self.known_outcome(name, result, result_type)
        if called is None:
            await self._look_up(name)
            called = self._outcome(name, result, result_type)
        return called

    def known_outcome(self, name: str, result: ToolResult, result_type: Any) -> ToolCallResult | None:
        """Return the outcome of a result; ``None`` if the server has to be asked first what it means."""
        if name and _may_be_wrapped(result.structured_content) and not self._metadata.knows(name):
            return None
        return self._outcome(name, result, result_type)

    def _outcome(self, name: str, result: ToolResult, result_type: Any) -> ToolCallResult:
        if not name:  # a handle found by its id alone does not know its tool
            return ToolCallResult(name, result, result_type=result_type)
        metadata = self._metadata
        schema = metadata.output_schema(name)
        is_shown = metadata.is_shown(name)
        if is_shown and schema is not None and self.validates and not result.is_error:
            metadata.validate(name, result.structured_content)
        return ToolCallResult(name, result, result_type=result_type, output_schema=schema, is_typed=is_shown)

    async def _look_up(self, name: str) -> None:
        """Find out once whether ``{"result": …}`` is what a tool gave, or the wrapping of it: its schema tells."""
        try:
            await self._reader.all_tools()
        except (RemoteError, BadServerResponse, TooManyPages, RequestTimeout) as error:
            logger.debug("The tools of %s could not be listed: %s", self._label(), error)
        except (FerruleError, OSError) as error:  # no answer at all: the next call asks again
            logger.debug("The tools of %s could not be listed now: %s", self._label(), error)
            return
        self._metadata.note_unlisted(name)


class ToolCalls:
    """Sends calls of tools.

    Args:
        send: sends one call.
        reader: knows which headers a call mirrors.
        results: makes the outcomes.
        label: returns what to call the server.
    """

    def __init__(self, send: SendCall, reader: ResultReader, results: ToolResults, label: Callable[[], str]) -> None:
        self._send = send
        self._reader = reader
        self._results = results
        self._label = label

    async def call(
        self, params: dict[str, Any], options: dict[str, Any], *, result_type: Any, raises: bool
    ) -> ToolCallResult:
        """Send a call and return its outcome.

        Args:
            params: the params of ``tools/call``.
            options: as for `ferrule.Client.request`.
            result_type: the type of ``.data``; see `ferrule.Client.call_tool`.
            raises: whether a failed tool raises `ToolFailed`.
        """
        name = params["name"]
        mirrored = options["headers"] = self._reader.mirrored(name, params.get("arguments"))
        try:
            raw = await self._send(params, options)
        except RemoteError as error:
            if error.code != JsonRpcErrorCode.HEADER_MISMATCH or mirrored is None:
                raise
            logger.info("%s refused the mirrored headers of %r; listing its tools again", self._label(), name)
            await self._reader.forget_tools()
            raw = await self._send(params, options)
        called = await self._results.read(name, raw, result_type)
        return called.raise_on_error() if raises else called


def _may_be_wrapped(value: Any) -> bool:
    """Servers wrap a result that is not an object, for revisions that only have objects."""
    return type(value) is dict and len(cast("dict[str, Any]", value)) == 1 and "result" in value
