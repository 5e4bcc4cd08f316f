"""Server cards and the catalog that names them (SEP-2127, an experimental extension). A card lists no primitives.

Not among the names of `ferrule.types`: servers that publish no card do not load this module.
"""

from typing import Any, Literal

from msgspec import field

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.base import Icon

__all__ = [
    "AICatalog",
    "CardHeader",
    "CardInput",
    "CardRemote",
    "CardRepository",
    "CatalogEntry",
    "ServerCard",
]


class CardInput(WireStruct, kw_only=True):
    """A value that a client asks its user for before it connects; ``value`` is fixed and may have ``{variables}``."""

    description: str | None = None
    is_required: bool | None = None
    is_secret: bool | None = None
    format: Literal["string", "number", "boolean", "filepath"] | None = None
    default: str | None = None
    placeholder: str | None = None
    value: str | None = None
    choices: list[str] | None = None


class CardHeader(CardInput, kw_only=True):
    """An HTTP header that a client sends to the server."""

    name: str
    variables: dict[str, CardInput] | None = None


class CardRemote(WireStruct, kw_only=True):
    """An address of the server; ``url`` may have ``{variables}``."""

    type: Literal["streamable-http", "sse"]
    url: str
    headers: list[CardHeader] | None = None
    variables: dict[str, CardInput] | None = None
    supported_protocol_versions: list[str] | None = None


class CardRepository(WireStruct, kw_only=True):
    """Where the source of the server is; ``source`` is the hosting service, such as ``"github"``."""

    url: str
    source: str
    subfolder: str | None = None
    id: str | None = None


class ServerCard(WireStruct, kw_only=True):
    """What a server says of itself before a client connects. Advisory: the live server decides."""

    schema: str = field(name="$schema")
    name: str
    version: str
    description: str
    title: str | None = None
    website_url: str | None = None
    repository: CardRepository | None = None
    icons: list[Icon] | None = None
    remotes: list[CardRemote] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CatalogEntry(WireStruct, kw_only=True):
    """One artifact of a catalog, with either its ``url`` or its ``data``."""

    identifier: str
    type: str
    url: str | None = None
    data: dict[str, Any] | None = None


class AICatalog(WireStruct, kw_only=True):
    """The artifacts that a site publishes."""

    spec_version: str
    entries: list[CatalogEntry]
