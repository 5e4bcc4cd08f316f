"""The context that a function of the old ``FastMCP`` takes, and the answers to its questions."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from ferrule_compat.models import Model
from ferrule_compat.session import RequestContext, ServerSession

__all__ = [
    "AcceptedElicitation",
    "AcceptedUrlElicitation",
    "CancelledElicitation",
    "Context",
    "DeclinedElicitation",
    "elicit_url",
    "elicit_with_validation",
]


class Context:
    """One request, for the function that serves it."""

    __ferrule_injected__: ClassVar[str] = "context"

    def __init__(self, *, request_context: Any = None, fastmcp: Any = None, **_: Any) -> None:
        self._request_context = request_context
        self._fastmcp = fastmcp

    def __class_getitem__(cls, _: Any) -> type[Context]:
        return cls

    @property
    def fastmcp(self) -> Any:
        """The server."""
        if self._fastmcp is None:
            raise ValueError("Context is not available outside of a request")
        return self._fastmcp

    @property
    def request_context(self) -> RequestContext:
        """The request."""
        if self._request_context is None:
            raise ValueError("Context is not available outside of a request")
        return self._request_context  # type: ignore[no-any-return]

    @property
    def session(self) -> ServerSession:
        """The client."""
        return self.request_context.session  # type: ignore[no-any-return]

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return str(self.request_context.request_id)

    @property
    def client_id(self) -> str | None:
        """What the client calls itself in ``_meta``; for display."""
        return getattr(self.request_context.meta, "client_id", None)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress, if the client asked for it."""
        token = getattr(self.request_context.meta, "progressToken", None)
        if token is not None:
            await self.session.send_progress_notification(token, progress, total, message)

    async def read_resource(self, uri: Any) -> Any:
        """Return the contents of one of the server's resources."""
        return await self.fastmcp.read_resource(uri)

    async def elicit(self, message: str, schema: Any) -> Any:
        """Ask the user to fill in a form, whose fields are those of a pydantic model."""
        return await elicit_with_validation(self.session, message, schema)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> Any:
        """Ask the user to open a page."""
        return await elicit_url(self.session, message, url, elicitation_id)

    async def log(
        self,
        level: Literal["debug", "info", "warning", "error"],
        message: Any,
        *,
        logger_name: str | None = None,
        **_: Any,
    ) -> None:
        """Send a log message to the client."""
        await self.session.send_log_message(level, message, logger_name)

    async def debug(self, message: Any, **extra: Any) -> None:
        """Send a log message at level debug."""
        await self.log("debug", message, **extra)

    async def info(self, message: Any, **extra: Any) -> None:
        """Send a log message at level info."""
        await self.log("info", message, **extra)

    async def warning(self, message: Any, **extra: Any) -> None:
        """Send a log message at level warning."""
        await self.log("warning", message, **extra)

    async def error(self, message: Any, **extra: Any) -> None:
        """Send a log message at level error."""
        await self.log("error", message, **extra)

    async def close_sse_stream(self) -> None:
        """Do nothing: Ferrule decides when a stream is closed."""

    close_standalone_sse_stream = close_sse_stream


class AcceptedElicitation(Model):
    """The user answered."""

    action: str = "accept"
    data: Any


class AcceptedUrlElicitation(Model):
    """The user agreed to open the page."""

    action: str = "accept"


class DeclinedElicitation(Model):
    """The user said no."""

    action: str = "decline"


class CancelledElicitation(Model):
    """The user dismissed the question."""

    action: str = "cancel"


def _refused(action: str) -> Any:
    if action == "decline":
        return DeclinedElicitation()
    if action == "cancel":
        return CancelledElicitation()
    raise ValueError(f"Unexpected elicitation action: {action}")


async def elicit_with_validation(
    session: ServerSession, message: str, schema: Any, related_request_id: Any = None
) -> Any:
    """Ask the user to fill in a form, and return the answer as an instance of ``schema``.

    Raises:
        TypeError: a field is not text, a number, a truth value or a choice.
        ValueError: the answer does not fit.
        McpError: the client cannot be asked.
    """
    from ferrule.app.rounds.questions import form_for

    answer = await session.elicit_form(message, form_for(schema).schema)
    if answer.action == "accept":
        return AcceptedElicitation(data=schema.model_validate(answer.content or {}))
    return _refused(answer.action)


async def elicit_url(
    session: ServerSession, message: str, url: str, elicitation_id: str, related_request_id: Any = None
) -> Any:
    """Ask the user to open a page; raises as `elicit_with_validation`."""
    answer = await session.elicit_url(message, url, elicitation_id)
    return AcceptedUrlElicitation() if answer.action == "accept" else _refused(answer.action)
