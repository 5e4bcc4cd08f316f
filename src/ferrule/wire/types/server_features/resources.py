"""Resources: data that a client can read from a server, by URI or by URI template."""

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
    """A resource of a server. ``size`` is in bytes, before encoding as base64."""

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
    """A set of resources with URIs of one form. ``uri_template`` is of RFC 6570; a server matches URIs against it."""

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
    """The contents of a resource; several items if the URI names several. A missing resource is an error instead."""

    contents: list[ResourceContents]


class SubscribeRequestParams(RequestParams):
    """Params of ``resources/subscribe`` (legacy revisions)."""

    uri: str


class UnsubscribeRequestParams(RequestParams):
    """Params of ``resources/unsubscribe`` (legacy revisions)."""

    uri: str


class ResourceUpdatedNotificationParams(NotificationParams):
    """A resource has changed; ``uri`` is that of the subscription, or one below it."""

    uri: str
