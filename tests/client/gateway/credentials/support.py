"""A gateway with callers of its own, in front of a protected server with another issuer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ferrule import Client
from ferrule.app.authorization.guards import protection_for
from ferrule.auth import MemoryStorage, ResourceServer
from ferrule.auth.server.verifiers import StaticTokens
from ferrule.client.gateway.credentials.sign_in import SignIns
from ferrule.client.gateway.credentials.storage import UserStorage
from ferrule.client.gateway.credentials.user_auth import SignedInUser
from ferrule.client.gateway.credentials.user_server import UserServer
from ferrule.client.gateway.gateway import Gateway
from ferrule.client.targets import HttpTarget
from ferrule.stores.store import Store, open_store
from ferrule.transports.hosting.running import asgi
from ferrule.wire.types import ElicitResult
from tests.auth.support import Protected, protected, serving

TOKENS = {f"token-of-{name}": {"subject": name, "scopes": []} for name in ("ada", "bob")}


@dataclass
class Front:
    """A gateway on a socket.

    Attributes:
        url: its endpoint.
        behind: the server behind, and its issuer.
        sign_ins: the sign-ins of the gateway.
        storage: where it keeps tokens.
        links: the links that were shown.
    """

    url: str
    behind: Protected
    sign_ins: SignIns
    storage: MemoryStorage
    links: list[str] = field(default_factory=list)

    async def visit(self, link: str, subject: str) -> str | None:
        """Do what a person does with a link, signed in at the issuer as ``subject``; return the server's name."""
        self.links.append(link)
        page = await self.sign_ins.page(urlsplit(link).path.rpartition("/")[2])
        assert page is not None
        provider: Any = self.behind.issuer.settings.provider
        provider.subject = subject
        reply = await self.behind.send("GET", page.url)
        assert reply.status in (302, 303), reply.body
        return await self.sign_ins.take_response(urlsplit(reply.headers["location"]).query)

    def client(self, user: str, *, visits: str | None = None, **options: Any) -> Client:
        """A client of the gateway; ``visits`` opens links as that subject, ``None`` cannot show any."""
        if visits is not None:

            async def open_link(params: Any) -> ElicitResult:
                await self.visit(params.url, visits)
                return ElicitResult("accept")

            options.update(elicitation_handler=open_link, elicitation_modes=("form", "url"))
        return Client(self.url, auth=f"token-of-{user}", **options)


@asynccontextmanager
async def front(*, store: Store | None = None, make_auth: Any = None) -> AsyncIterator[Front]:
    """Return a gateway whose one server, ``files``, is used with each caller's own sign-in.

    Args:
        store: where pages and responses are kept.
        make_auth: makes other credentials than a sign-in.
    """
    async with protected() as behind:
        storage = MemoryStorage()
        sign_ins = SignIns("http://127.0.0.1:1/mcp/sign-in", store or open_store("memory:"))

        def signed_in(key: str, context: Any, server: UserServer) -> Any:
            own = UserStorage(storage, key, server.name)
            account = str(context.principal.subject)
            return SignedInUser(server.name, account, own, sign_ins, lambda: server.background, server.announce, {})

        user_server = UserServer("files", HttpTarget(behind.url), make_auth or signed_in, {})
        gateway = Gateway({"files": user_server.server}, open_s=60, moment_s=60)
        gateway.server._protection = protection_for(ResourceServer(StaticTokens(TOKENS)))  # pyright: ignore[reportPrivateUsage]
        endpoint = asgi(gateway.server, loopback=True)
        async with serving(endpoint) as port:
            try:
                yield Front(f"http://127.0.0.1:{port}/mcp", behind, sign_ins, storage)
            finally:
                await endpoint.aclose()
