"""`ClientExtension`: the client's half of a protocol extension; `ferrule.extensions.base` has the server's.

``Client(target, extensions=[Weather()])`` declares it to the server, and ``client.extension(Weather)`` returns it. Each
client has a copy of its own, so that one object can be given to several clients and to a `ClientGroup`.

Source: 2026-07-28 "Versioning" (extensions), SEP-2133.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ferrule.client.errors import ExtensionNotOffered
from ferrule.client.settings import ExtensionRequestHandler
from ferrule.extensions.identifier import check_identifier
from ferrule.protocol.capabilities import extension_settings

if TYPE_CHECKING:
    from ferrule.client.client import Client

__all__ = ["ClientExtension"]


class ClientExtension:
    """Base of the client's halves of extensions; override what you need.

    Attributes:
        identifier: ``reverse.domain/name``.
        client: the client that this copy belongs to.
    """

    identifier: ClassVar[str]
    client: Client

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_identifier(cls)

    # -- what it adds ---------------------------------------------------------------------------------------------

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that the client declares for this extension; ``{}`` for support without settings."""
        return {}

    def result_types(self) -> Mapping[str, Callable[[str, dict[str, Any], dict[str, Any]], Awaitable[dict[str, Any]]]]:
        """Return, by ``resultType``, the function that makes a final result of such a result.

        ``async (method, params, result) -> result``: the method and params of the request, and its raw result.
        """
        return {}

    def notifications(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """Return the functions, sync or async, that take the server's notifications, by method.

        They are called with the raw params, one after another, in the order of arrival; a sync function before the call
        that the notification belongs to returns.
        """
        return {}

    def requests(self) -> Mapping[str, ExtensionRequestHandler]:
        """Return the functions that answer the server's requests, by method: ``async (params, question) -> result``.

        A legacy server sends them as requests, a modern one in the rounds of a call.
        """
        return {}

    def outdates(self) -> Mapping[str, Iterable[str]]:
        """Return, by notification, the methods whose cached results the notification makes outdated."""
        return {}

    # -- using it -------------------------------------------------------------------------------------------------

    def bound_to(self, client: Client) -> Self:
        """Return a copy that belongs to a client; the client calls this once."""
        made = copy(self)
        made.client = client
        return made

    @property
    def server_settings(self) -> Mapping[str, Any] | None:
        """The settings that the server declares for the extension; ``None`` if it does not declare it.

        They come from a peer: check what you use.

        Raises:
            ConnectionClosed: the client is not connected.
        """
        return extension_settings(self.client.server_capabilities, self.identifier)

    def require(self) -> None:
        """Refuse to go on where the server does not declare the extension.

        Raises:
            ExtensionNotOffered: it does not.
            ConnectionClosed: the client is not connected.
        """
        if self.server_settings is None:
            raise ExtensionNotOffered(self.identifier)

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request of the extension and return its result as JSON; see `Client.request`.

        Raises:
            ExtensionNotOffered: the server does not declare the extension.
        """
        self.require()
        options: dict[str, Any] = {} if timeout_s is None else {"timeout_s": timeout_s}
        return await self.client.request(method, params, **options)
