"""The protection of a Django server: its senders, its challenges, and where clients learn how to sign in."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from functools import cached_property
from typing import Any, Protocol, cast

from django.core.handlers.asgi import ASGIRequest

from ferrule.app.execution.threads import WorkerThreads
from ferrule.auth.challenges import format_challenge, parse_challenges
from ferrule.auth.server.refusals import InsufficientScope, challenge_headers
from ferrule.django.access.authentication import REQUEST_KEY, AuthenticationRefused, authenticators_of
from ferrule.django.access.metadata import DjangoMetadata
from ferrule.django.access.principals import DjangoPrincipal
from ferrule.django.conf import DjangoSettings
from ferrule.django.threads import without_transaction
from ferrule.transports.asgi.context import HttpContext, HttpRefusal

__all__ = ["DjangoProtection", "ProtectedServer"]

_Headers = list[tuple[str, str]]

_OUTCOME_KEY = "ferrule.django.outcome"
"""Key of a scope: the `_Outcome` of an authentication that took place before."""


class ProtectedServer(Protocol):
    """What the protection reads of a server."""

    @property
    def settings(self) -> DjangoSettings:
        """See `DjangoServer`."""
        ...

    @property
    def threads(self) -> WorkerThreads:
        """See `MCPServer`."""
        ...

    @cached_property
    def metadata(self) -> DjangoMetadata:
        """See `DjangoServer.metadata`."""
        ...

    def ask_ahead(self, request: Any, principal: DjangoPrincipal) -> None:
        """See `DjangoServer.ask_ahead`."""
        ...


class DjangoProtection:
    """The `ServerProtection` of a server whose senders are users of the project.

    Args:
        server: the server.
    """

    def __init__(self, server: ProtectedServer) -> None:
        self._server = server

    @property
    def resource(self) -> str | None:
        """The public URL of the endpoint, ``MCP["URL"]``; ``None`` without."""
        return self._server.settings.url

    async def authenticate(self, context: HttpContext) -> DjangoPrincipal:
        """Return the sender of a request; see `ServerProtection`.

        Raises:
            HttpRefusal: its credentials are wrong, or it has none and the server requires a login.
        """
        outcome: _Outcome | None = context.scope.get(_OUTCOME_KEY)
        if outcome is not None and not outcome.is_taken:
            return outcome.take()
        request = _request_of(context)
        found: DjangoPrincipal = await self._server.threads.run(self._authenticate, {"request": request})
        return found

    def facts_of(self, request: Any) -> Mapping[str, Any]:
        """Find the sender in this thread, before the event loop asks for it, which would have to wait for the thread.

        A request that the endpoint may refuse without looking at its credentials is left alone.

        Args:
            request: the request.

        Returns:
            What is added to the scope of the request, for `authenticate`; the refusal is raised there.
        """
        if request.method != "POST" or request.content_type != "application/json" or "HTTP_ORIGIN" in request.META:
            return {}
        try:
            # Context variables that a class sets are not those of the thread, which serves others after this.
            found = copy_context().run(self._authenticate, request)
        except Exception as error:
            return {_OUTCOME_KEY: _Outcome(None, error)}
        return {_OUTCOME_KEY: _Outcome(found, None)}

    @without_transaction  # a refusal would roll back what was counted, for instance by a package that locks accounts
    def _authenticate(self, request: Any) -> DjangoPrincipal:
        try:
            found = authenticators_of(self._server.settings).principal_of(request)
        except AuthenticationRefused as refused:
            headers: _Headers = []
            if refused.status == 401:
                error = "invalid_token" if refused.has_credentials else None
                headers = self._challenges(request, refused.challenges, error)
            if refused.wait_s is not None:
                headers.append(("retry-after", str(math.ceil(refused.wait_s))))
            raise HttpRefusal(refused.status, refused.message, headers) from refused
        self._server.ask_ahead(request, found)
        return found

    def _challenges(self, request: Any, challenges: Sequence[str], error: str | None) -> _Headers:
        """Return the headers of 401: each challenge of the project, those of bearer tokens with the metadata."""
        metadata_url = self._server.metadata.url_for(request)
        made: _Headers = []
        has_bearer = False
        for text in challenges:
            parsed = parse_challenges(text)
            if len(parsed) == 1 and parsed[0].scheme == "bearer":
                has_bearer = True
                sent = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[0].lower() == "bearer"
                found = {"error": error if sent else None, **parsed[0].parameters}
                if metadata_url is not None:
                    found["resource_metadata"] = metadata_url
                text = format_challenge("Bearer", found)
            made.append(("www-authenticate", text))
        if not made or (metadata_url is not None and not has_bearer):
            made.append(("www-authenticate", format_challenge("Bearer", {"resource_metadata": metadata_url})))
        return made

    def insufficient_scope(self, context: Any, scopes: Sequence[str]) -> InsufficientScope:
        """Return the error for missing scopes; see `MakesChallenges`."""
        error = InsufficientScope(scopes)
        if isinstance(context, HttpContext) and REQUEST_KEY in context.scope:
            error.http_headers = challenge_headers(
                metadata_url=self._server.metadata.url_for(context.scope[REQUEST_KEY]),
                scopes=error.scopes,
                error="insufficient_scope",
                description=error.message,
            )
        return error

    def refused_token(self, context: HttpContext) -> _Headers:
        """Return the headers of 401 for credentials that a view refused; see `MakesChallenges`."""
        request = _request_of(context)
        return self._challenges(
            request, authenticators_of(self._server.settings).challenges_of(request), "invalid_token"
        )

    def document_for(self, context: HttpContext, path: str) -> None:
        """Return ``None``: the URLconf of the project routes the metadata, see `ferrule.django.access.metadata`."""

    def document_paths(self, path: str) -> list[str]:
        """Return none; see `document_for`."""
        return []


class _Outcome:
    """What an authentication has found, for the first who asks: a sender, or an error."""

    def __init__(self, found: DjangoPrincipal | None, error: Exception | None) -> None:
        self._found = found
        self._error = error
        self.is_taken = False

    def take(self) -> DjangoPrincipal:
        """Return the sender.

        Raises:
            Exception: the error.
        """
        self.is_taken = True
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # no cycle with the frames of its traceback
        return cast("DjangoPrincipal", self._found)


def _request_of(context: HttpContext) -> Any:
    """Return Django's request; one is made where the endpoint is served outside of the project's URLconf."""
    found = context.scope.get(REQUEST_KEY)
    return ASGIRequest(dict(context.scope), io.BytesIO()) if found is None else found
