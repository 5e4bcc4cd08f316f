"""Resources: what a server lets a client read, by URI or by URI template."""

from typing import Any

from msgspec import field

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.base import (
    Annotations,
    CacheableResult,
    Icon,
    InputResponseRequestParams,
    NotificationParams,
    PaginatedResult,
    RequestParams,
)
from ferrule.wire.types.content import ResourceContents

__all__ = [
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "Resource",
    "ResourceTemplate",
    "ResourceUpdatedNotificationParams",
    "SubscribeRequestParams",
    "UnsubscribeRequestParams",
]


class Resource(WireStruct):
    """Something that can be read. ``size`` is in bytes, before any base64."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ResourceTemplate(WireStruct):
    """A family of resources. ``uri_template`` is RFC 6570; servers match URIs against it, not only expand it."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListResourcesResult(PaginatedResult):
    """One page of ``resources/list``."""

    resources: list[Resource]


class ListResourceTemplatesResult(PaginatedResult):
    """One page of ``resources/templates/list``."""

    resource_templates: list[ResourceTemplate]


class ReadResourceRequestParams(InputResponseRequestParams):
    """Params of ``resources/read``."""

    uri: str


class ReadResourceResult(CacheableResult):
    """What was read: several items if the URI stands for several. Never empty for a missing resource."""

    contents: list[ResourceContents]


class SubscribeRequestParams(RequestParams):
    """Params of ``resources/subscribe`` (legacy revisions)."""

    uri: str


class UnsubscribeRequestParams(RequestParams):
    """Params of ``resources/unsubscribe`` (legacy revisions)."""

    uri: str


class ResourceUpdatedNotificationParams(NotificationParams):
    """A resource changed; ``uri`` may lie below the one that was subscribed to."""

    uri: str
