"""The exceptions of the old SDK that servers raise and catch."""

from __future__ import annotations

from typing import Any

from ferrule.errors import MCPError
from ferrule_compat.wire_types import find

__all__ = [
    "FastMCPError",
    "InvalidSignature",
    "McpError",
    "ResourceError",
    "ToolError",
    "UrlElicitationRequiredError",
    "ValidationError",
    "as_mcp_error",
    "sent",
]


class McpError(Exception):
    """An error with a code, as it is or was sent to the other side; ``error`` is an ``ErrorData``."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.message)
        self.error = error


class UrlElicitationRequiredError(McpError):
    """The call needs pages that the user opens first (-32042)."""

    def __init__(self, elicitations: list[Any], message: str | None = None) -> None:
        self.elicitations = elicitations
        text = message or f"URL elicitation{'s' if len(elicitations) > 1 else ''} required"
        data = {"elicitations": [each.to_wire() for each in elicitations]}
        super().__init__(find("ErrorData")(code=-32042, message=text, data=data))


class FastMCPError(Exception):
    """The base of the errors of ``FastMCP``."""


class ValidationError(FastMCPError):
    """Parameters or results do not fit."""


class ResourceError(FastMCPError):
    """A resource cannot be read."""


class ToolError(FastMCPError):
    """A tool failed; its text is what the model reads."""


class InvalidSignature(Exception):
    """A function cannot be a tool."""


def as_mcp_error(error: Exception) -> McpError:
    """Return an error of Ferrule as the error that a server of the old SDK catches."""
    code = error.code if isinstance(error, MCPError) else -32600
    text = error.message if isinstance(error, MCPError) else str(error)
    made = McpError(find("ErrorData")(code=code, message=text))
    made.__cause__ = error
    return made


def sent(error: Exception) -> MCPError:
    """Return the protocol error for an exception of a server's handler, as the old SDK sent it: with its text."""
    if isinstance(error, McpError):
        data = {} if error.error.data is None else {"data": error.error.data}
        return MCPError(error.error.message, code=error.error.code, **data)
    return MCPError(str(error), code=0)
