"""Notifications about a running request: its cancellation and its progress.

Other notifications are in the modules of their chapters; those without params of their own
(``notifications/…/list_changed``, ``notifications/initialized``) use `NotificationParams`.
"""

from ferrule.wire.types.base import NotificationParams, ProgressToken

__all__ = ["CancelledNotificationParams", "ProgressNotificationParams"]


class CancelledNotificationParams(NotificationParams):
    """The sender withdraws the request ``request_id``, which is optional in 2025-11-25 only (tasks have a method)."""

    request_id: str | int | None = None
    reason: str | None = None


class ProgressNotificationParams(NotificationParams):
    """The progress of the request with this token. ``progress`` must rise; ``message`` exists from 2025-03-26 on."""

    progress_token: ProgressToken
    progress: int | float
    total: int | float | None = None
    message: str | None = None
