"""`DemoIssuer`: the endpoints as an ASGI application. For tests, demos and examples; see the package."""

from __future__ import annotations

import html
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ferrule.auth.http import AuthRequest, AuthResponse
from ferrule.auth.issuer.clients import authenticate_client, credentials_of, read_document, register
from ferrule.auth.issuer.endpoints import authorize, introspect, issue_token, revoke
from ferrule.auth.issuer.provider import MemoryProvider, Provider, RegisteredClient
from ferrule.auth.issuer.settings import Denied, IssuerRequest, IssuerSettings, Reply, json_reply
from ferrule.auth.server.jwks import drive
from ferrule.auth.urls import UrlPolicy, well_known_url
from ferrule.protocol.errors import LocalError
from ferrule.wire.codec import encode

__all__ = ["DemoIssuer"]

log = logging.getLogger("ferrule.auth")

MAX_BODY_BYTES: Final = 64 * 1024
Fetch = Callable[[AuthRequest], Awaitable[AuthResponse]]


class DemoIssuer:
    """An authorization server in memory. Not for production identity.

    Args:
        issuer: the identifier of the server, which is the base URL of its endpoints.
        provider: the storage and the decisions; ``None``: in memory, and one user consents to everything.
        fetch: fetches client metadata documents; ``None`` does not support them.
        policy: limits on the URLs of client metadata documents.
        options: the options of `IssuerSettings`.

    Attributes:
        settings: the configuration.
        log: method and path of each request, for tests.
    """

    def __init__(
        self,
        issuer: str,
        provider: Provider | None = None,
        *,
        fetch: Fetch | None = None,
        policy: UrlPolicy | None = None,
        **options: Any,
    ) -> None:
        options.setdefault("allows_documents", fetch is not None)
        self.settings = IssuerSettings(issuer=issuer, provider=provider or MemoryProvider(), **options)
        self.log: list[str] = []
        self._fetch = fetch
        self._policy = policy or UrlPolicy()
        self._documents: dict[str, tuple[float, RegisteredClient]] = {}

    def mint(self, audience: str, **claims: Any) -> str:
        """Return a signed access token with any claims, for tests.

        Args:
            audience: the ``aud`` claim.
            claims: further claims; ``sub`` is ``"demo-user"`` unless given.
        """
        return self.settings.sign_access_token({"aud": audience, "sub": "demo-user", **claims})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if len(body) > MAX_BODY_BYTES or not message.get("more_body", False):
                break
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["path"]
        self.log.append(f"{scope['method']} {path}")
        reply = await self.answer(scope["method"], path, scope["query_string"].decode("latin-1"), headers, body)
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
        raw.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": raw})
        await send({"type": "http.response.body", "body": reply.body})

    async def answer(self, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> Reply:
        """Return the response to one request."""
        if len(body) > MAX_BODY_BYTES:
            return json_reply({"error": "invalid_request"}, 413)
        issuer_path = urlsplit(self.settings.issuer).path.rstrip("/")
        endpoint = path.removeprefix(issuer_path)
        is_visit = endpoint == "/authorize"
        try:
            request = IssuerRequest(method, f"{self.settings.issuer}{endpoint}", headers, {}, {}, body)
            request.query = _parameters(query)
            if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
                request.form = _parameters(body.decode("latin-1"))
            reply = await self._route(path, endpoint, request)
        except Exception as error:
            denied = error if isinstance(error, Denied) else _server_error(error)
            if is_visit:
                text = f"<h1>{html.escape(denied.error)}</h1>{html.escape(str(denied))}"
                page = f"<!doctype html><meta charset=utf-8><title>Error</title>{text}"
                return Reply(denied.status, [("content-type", "text/html; charset=utf-8")], page.encode())
            said = {"error": denied.error, "error_description": str(denied)}
            reply = json_reply(said, denied.status, denied.headers)
        if not is_visit:
            reply.headers.append(("access-control-allow-origin", "*"))
        return reply

    async def _route(self, path: str, endpoint: str, request: IssuerRequest) -> Reply:
        settings = self.settings
        if request.method == "GET":
            if path in self._metadata_paths():
                headers = [("content-type", "application/json"), ("cache-control", "max-age=300")]
                return Reply(200, headers, encode(settings.metadata()))
            if endpoint == "/jwks":
                return json_reply(settings.key_set())
            if endpoint == "/authorize":
                client = await self._client(request.query.get("client_id"))
                return await authorize(settings, client, request)
        if request.method == "POST":
            if endpoint == "/register" and settings.allows_registration:
                return await register(settings, request)
            serve = {"/token": issue_token, "/revoke": revoke, "/introspect": introspect}.get(endpoint)
            if serve is not None:
                client = authenticate_client(await self._client(credentials_of(request)[0]), request)
                return await serve(settings, client, request)
        if request.method == "OPTIONS":
            return Reply(204, [("access-control-allow-headers", "*"), ("access-control-allow-methods", "GET, POST")])
        return json_reply({"error": "not_found"}, 404)

    def _metadata_paths(self) -> set[str]:
        issuer = self.settings.issuer
        urls = [well_known_url(issuer, "oauth-authorization-server"), well_known_url(issuer, "openid-configuration")]
        urls.append(f"{issuer}/.well-known/openid-configuration")
        return {urlsplit(url).path for url in urls}

    async def _client(self, client_id: str | None) -> RegisteredClient | None:
        if client_id is None:
            return None
        found = await self.settings.provider.get_client(client_id)
        if found is not None or self._fetch is None or not client_id.startswith("https://"):
            return found
        known = self._documents.get(client_id)
        now = self.settings.clock()
        if known is not None and now < known[0]:
            return known[1]
        try:
            found = await drive(read_document(client_id, self._policy), self._fetch)
        except Denied:
            raise
        except (LocalError, OSError) as error:
            raise Denied("invalid_client", f"The client's metadata document cannot be read: {error}") from error
        if len(self._documents) > 1000:
            self._documents.clear()
        self._documents[client_id] = (now + 300.0, found)
        return found


def _server_error(error: Exception) -> Denied:
    """Log an unexpected error and return the OAuth error for the client, which has no details."""
    log.error("a request to the issuer failed", exc_info=error)
    return Denied("server_error", "The request could not be served", status=500)


def _parameters(text: str) -> dict[str, str]:
    """Return parameters by name.

    Raises:
        Denied: there are more than 100, or one is repeated (RFC 6749, 3.1).
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise Denied("invalid_request", "There are too many parameters") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Denied("invalid_request", "A parameter is given more than once")
    return found
