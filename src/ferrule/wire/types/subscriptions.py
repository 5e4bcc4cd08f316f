"""``subscriptions/listen`` (2026-07-28): one stream of change notifications, filtered as the client requested."""

from ferrule.wire.struct import OpenBundle
from ferrule.wire.types.base import NotificationParams, RequestParams, Result

__all__ = [
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
]


class SubscriptionFilter(OpenBundle):
    """The notifications that a client requests, or a server grants. Extensions add keys (tasks: ``taskIds``)."""

    tools_list_changed: bool | None
    prompts_list_changed: bool | None
    resources_list_changed: bool | None
    resource_subscriptions: list[str] | None


class SubscriptionsListenRequestParams(RequestParams):
    """Params of ``subscriptions/listen``."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """The first message of a subscription: the part of the filter that the server grants."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result):
    """The server ended the subscription without an error; ``_meta`` has its id."""
