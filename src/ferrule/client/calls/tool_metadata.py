"""Facts of a server's tools: the header plan, the output schema, the validator; each made once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ferrule.client.errors import InvalidToolOutput, OutputNotCheckable
from ferrule.protocol.schema_work import SchemaTooCostly
from ferrule.wire.headers import InvalidHeaderAnnotation, ParamHeader, compile_param_plan, mirror_params
from ferrule.wire.types import Tool

if TYPE_CHECKING:
    from ferrule.client.calls.schema_check import SchemaCheck

__all__ = ["ToolMetadata"]

logger = logging.getLogger("ferrule.client")

_NO_HEADERS: Mapping[str, str] = {}


class _Known:
    """One listed tool, the headers that mirror its parameters, and its validator, which is made on first use."""

    __slots__ = ("_check", "_is_made", "plan", "tool")

    def __init__(self, tool: Tool, plan: tuple[ParamHeader, ...]) -> None:
        self.tool = tool
        self.plan = plan
        self._check: SchemaCheck | SchemaTooCostly | None = None
        self._is_made = False

    def check(self) -> SchemaCheck | SchemaTooCostly | None:
        """Return the validator of structured content; ``None`` without one, the error if the schema is too costly."""
        if not self._is_made:
            self._check, self._is_made = _make_check(self.tool), True
        return self._check


class ToolMetadata:
    """Tools by name, as last listed."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._unlisted: set[str] = set()
        self._shown: set[str] = set()

    def show(self, tools: Iterable[Tool]) -> None:
        """Record that the program itself has listed these tools; see `is_shown`."""
        self._shown.update(tool.name for tool in tools)

    def learn(self, tools: Iterable[Tool], *, checks_headers: bool) -> dict[str, str]:
        """Remember the definitions of tools.

        Args:
            tools: the tools.
            checks_headers: whether calls mirror parameters into HTTP headers.

        Returns:
            Name → reason, for tools whose header annotations are invalid; they are not remembered.
        """
        refused: dict[str, str] = {}
        for tool in tools:
            known = self._known.get(tool.name)
            if known is not None and known.tool == tool:
                continue  # comparing is much cheaper than reading its schema again
            plan: tuple[ParamHeader, ...] = ()
            if checks_headers:
                try:
                    plan = compile_param_plan(tool.input_schema)
                except InvalidHeaderAnnotation as error:
                    refused[tool.name] = str(error)
                    self._known.pop(tool.name, None)
                    continue
            self._known[tool.name] = _Known(tool, plan)
        return refused

    def knows(self, name: str) -> bool:
        """Return whether a tool was listed, or a list did not have it."""
        return name in self._known or name in self._unlisted

    def note_unlisted(self, name: str) -> None:
        """Record that a list was read for this tool: if the list lacks the tool, it is not read a second time."""
        if name not in self._known:
            self._unlisted.add(name)

    def has_headers(self, name: str) -> bool:
        """Return whether calls of a tool have mirrored parameters, as far as its definition is known."""
        known = self._known.get(name)
        return known is not None and bool(known.plan)

    def headers(self, name: str, arguments: Mapping[str, Any] | None) -> Mapping[str, str]:
        """Return the mirrored parameters of a call; empty for a tool that was never listed."""
        known = self._known.get(name)
        return mirror_params(known.plan, arguments) if known is not None and known.plan else _NO_HEADERS

    def input_schema_of(self, name: str) -> dict[str, Any] | None:
        """Return the input schema of a tool; ``None`` for one that was never listed."""
        known = self._known.get(name)
        return None if known is None else known.tool.input_schema

    def output_of(self, name: str) -> tuple[dict[str, Any] | None, bool]:
        """Return the output schema of a tool that was listed, and whether the program has listed it.

        A listing by the client itself does not count for the second: it is necessary in one era only, and the same call
        would give ``.data`` of another class there.
        """
        known = self._known.get(name)
        return (None if known is None else known.tool.output_schema), name in self._shown

    def validate(self, name: str, value: Any) -> None:
        """Check a successful result against the tool's schema.

        Raises:
            InvalidToolOutput: the value does not fit the schema, or is missing.
            OutputNotCheckable: the validation would take more work than is allowed.
        """
        known = self._known.get(name)
        check = None if known is None else known.check()
        if check is None:
            return
        if value is UNSET:
            raise InvalidToolOutput(name, "structured content is missing", "$")
        if isinstance(check, SchemaTooCostly):
            raise OutputNotCheckable(name, str(check))
        try:
            problem = check.problem(value)
        except SchemaTooCostly as error:
            raise OutputNotCheckable(name, str(error)) from error
        if problem is not None:
            path, why = problem
            raise InvalidToolOutput(name, why, path)


def _make_check(tool: Tool) -> SchemaCheck | SchemaTooCostly | None:
    if tool.output_schema is None:
        return None
    from ferrule.client.calls.schema_check import SchemaCheck

    try:
        return SchemaCheck(tool.output_schema)
    except ImportError:
        logger.warning("Structured results are not validated: jsonschema-rs is not installed")
        return None
    except SchemaTooCostly as error:
        return error
    except Exception as error:
        logger.warning(
            "The output schema of the tool %r is unusable, its results are not checked: %s", tool.name, error
        )
        return None
