"""Notifications about a running request: it is cancelled, it makes progress.

Those of a chapter live with the chapter; bare ones (``notifications/…/list_changed``, ``notifications/initialized``)
have only `NotificationParams`.
"""

from ferrule.wire.types.base import NotificationParams, ProgressToken

__all__ = ["CancelledNotificationParams", "ProgressNotificationParams"]


class CancelledNotificationParams(NotificationParams):
    """The sender no longer wants ``request_id``. It is optional in 2025-11-25 only, where tasks have their own way."""

    request_id: str | int | None = None
    reason: str | None = None


class ProgressNotificationParams(NotificationParams):
    """How far the request with this token is. ``progress`` only grows; ``message`` is from 2025-03-26 on."""

    progress_token: ProgressToken
    progress: int | float
    total: int | float | None = None
    message: str | None = None
