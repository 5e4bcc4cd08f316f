"""The HTTP endpoint of a gateway: its views at paths of their own, and the pages of sign-ins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ferrule.cli.gateway.pages import PAGE_HEADERS, confirm_page, message_page
from ferrule.transports.asgi.endpoint import HttpEndpoint
from ferrule.transports.asgi.replies import send_document

if TYPE_CHECKING:
    from ferrule.client.gateway.credentials.sign_in import SignIns
    from ferrule.client.gateway.views import GatewayViews
    from ferrule.kernel.server import Server
    from ferrule.transports.asgi.options import HttpOptions
    from ferrule.transports.asgi.request import IncomingRequest

__all__ = ["SIGN_IN_PATH", "GatewayEndpoint"]

SIGN_IN_PATH: Final = "/sign-in"
"""Path of the pages of sign-ins, below that of the endpoint."""


class GatewayEndpoint(HttpEndpoint):
    """The endpoint of a gateway.

    Args:
        server: the gateway's server.
        options: the settings.
        views: its views.
        sign_ins: the sign-ins of its callers; ``None`` where no server behind needs one.
    """

    def __init__(
        self, server: Server[Any], options: HttpOptions, views: GatewayViews, sign_ins: SignIns | None
    ) -> None:
        super().__init__(server, options)
        self._views = views
        self._sign_ins = sign_ins

    def _is_ours(self, scope: Mapping[str, Any]) -> bool:
        return super()._is_ours(scope) or self._views.name_in(_own_path(scope)) is not None

    async def _serve_elsewhere(self, request: IncomingRequest) -> None:
        path = _own_path(request.scope)
        prefix = f"{self._views.path}{SIGN_IN_PATH}/"
        if self._sign_ins is None or not path.startswith(prefix):
            await super()._serve_elsewhere(request)
            return
        if not await self._admit(request, None):
            return
        if request.scope["method"] not in ("GET", "HEAD"):
            await request.reply_empty(405, [(b"allow", b"GET, HEAD")])
            return
        status, body = await self._sign_in_page(self._sign_ins, path[len(prefix) :], request)
        await send_document(request.send, request.scope["method"], status, body, PAGE_HEADERS)

    async def _sign_in_page(self, sign_ins: SignIns, ticket: str, request: IncomingRequest) -> tuple[int, bytes]:
        if ticket == "callback":
            query = request.scope.get("query_string", b"").decode("latin-1")
            server = await sign_ins.take_response(query)
            if server is None:
                return 404, message_page(
                    "This sign-in is not open", "The sign-in has ended or expired. Start it again."
                )
            return 200, message_page(f"{server}: done", "You can close this page and go back to where you came from.")
        page = await sign_ins.page(ticket)
        if page is None:
            return 404, message_page("This link has expired", "Ask for a new one: call the tool again.")
        return 200, confirm_page(page)


def _own_path(scope: Mapping[str, Any]) -> str:
    """Return the path below the mounting prefix; ASGI hosts differ in whether ``path`` includes ``root_path``."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path
