"""Log messages to the client; deprecated in 2026-07-28 in favour of stderr and OpenTelemetry."""

from typing import Any, Literal, TypeAlias

from ferrule.wire.types.base import NotificationParams, RequestParams

__all__ = ["LoggingLevel", "LoggingMessageNotificationParams", "SetLevelRequestParams"]

LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""The eight severities of RFC 5424, least severe first."""


class SetLevelRequestParams(RequestParams):
    """Params of ``logging/setLevel`` (legacy revisions): the server sends messages of this level and above."""

    level: LoggingLevel


class LoggingMessageNotificationParams(NotificationParams):
    """One log record; ``data`` is any JSON value, ``logger`` the name of its source."""

    level: LoggingLevel
    data: Any
    logger: str | None = None
