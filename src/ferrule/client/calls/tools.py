"""Calls of tools: mirrored headers, the check against the output schema, and the typed outcome."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
"""Sends a ``tools/call`` with these params and options, and returns its raw result, also that of a task."""

_LIST_ATTEMPTS: Final = 2
"""How often tools are listed for the schema of a result while the connection is lost: a list changes nothing."""


class ToolResults:
    """Makes typed outcomes of raw results of tools.

    Args:
        reader: gives results their types, and lists tools.
        validates: validate structured results of tools that the program has listed against their schemas.
        label: returns the server's name for messages.
    """

    def __init__(self, reader: ResultReader, validates: bool, label: Callable[[], str]) -> None:
        self.validates = validates
        self._reader = reader
        self._metadata = reader.metadata
        self._label = label

    async def read(self, name: str, raw: Mapping[str, Any], result_type: Any) -> ToolCallResult:
        """Return a successful or failed result, validated if the program has listed the tool.

        Raises:
            BadServerResponse: the result is malformed.
            InvalidToolOutput: the structured content does not fit the schema.
            OutputNotCheckable: the validation would take more work than is allowed.
        """
        return await self.outcome(name, self._reader.typed(raw, ToolResult, "tools/call"), result_type)

    async def outcome(self, name: str, result: ToolResult, result_type: Any) -> ToolCallResult:
        """Return the outcome of a result that was converted already; see `read`."""
        called = self.known_outcome(name, result, result_type)
        if called is None:
            await self._look_up(name)
            called = self._outcome(name, result, result_type)
        return called

    def known_outcome(self, name: str, result: ToolResult, result_type: Any) -> ToolCallResult | None:
        """Return the outcome of a result; ``None`` if the tool's schema has to be listed first."""
        value: Any = result.structured_content
        # Servers send a value that is not an object in this form.
        is_one_member = type(value) is dict and len(value) == 1  # pyright: ignore[reportUnknownArgumentType]
        if is_one_member and "result" in value and name and not self._metadata.knows(name):
            return None
        return self._outcome(name, result, result_type)

    def _outcome(self, name: str, result: ToolResult, result_type: Any) -> ToolCallResult:
        if not name:  # a handle found by its id alone does not know its tool
            return ToolCallResult(name, result, result_type=result_type)
        metadata = self._metadata
        schema, is_shown = metadata.output_of(name)
        if is_shown and schema is not None and self.validates and not result.is_error:
            metadata.validate(name, result.structured_content)
        return ToolCallResult(name, result, result_type=result_type, output_schema=schema, is_typed=is_shown)

    async def _look_up(self, name: str) -> None:
        """List the tools once: the output schema shows whether ``{"result": …}`` is a tool's value or wraps it."""
        for _ in range(_LIST_ATTEMPTS):
            try:
                await self._reader.all_tools()
            except (RemoteError, BadServerResponse, TooManyPages, RequestTimeout) as error:
                logger.debug("The tools of %s could not be listed: %s", self._label(), error)
            except (FerruleError, OSError) as error:
                logger.debug("The tools of %s could not be listed now: %s", self._label(), error)
                continue
            self._metadata.note_unlisted(name)
            return
        # No response: the next call lists the tools again.


class ToolCalls:
    """Sends calls of tools.

    Args:
        send: sends one call.
        reader: returns the headers that mirror the arguments of a call.
        results: converts raw results.
        label: returns the server's name for messages.
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
        # The tool may have other mirrored parameters since it was listed; the server refuses before it runs the tool.
        except RemoteError as error:
            if error.code != JsonRpcErrorCode.HEADER_MISMATCH or mirrored is None:
                raise
            logger.info("%s refused the mirrored headers of %r; listing its tools again", self._label(), name)
            await self._reader.forget_tools()
            raw = await self._send(params, options)
        called = await self._results.read(name, raw, result_type)
        return called.raise_on_error() if raises else called
