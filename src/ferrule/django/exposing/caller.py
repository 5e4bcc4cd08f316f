"""Requests into the project: middleware, URLconf, authentication, throttles and transactions run as for any request."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cached_property
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http import JsonResponse
from django.urls import ResolverMatch, set_script_prefix
from msgspec.structs import replace

from ferrule.app.execution.context import current_context
from ferrule.app.execution.threads import WorkerThreads
from ferrule.django.access.authentication import REQUEST_KEY
from ferrule.django.access.principals import DjangoPrincipal
from ferrule.django.access.scopes import name_missing_scopes
from ferrule.django.access.verified import VerifiedSender, give_to_views
from ferrule.django.exposing.requests_without_values import own_host
from ferrule.django.exposing.targets import ExposedTarget, ForwardedHeaders
from ferrule.expose.callers.wsgi import WSGICaller
from ferrule.expose.exchange import ApiRequest, ApiResponse, Origin
from ferrule.expose.requests.routes import NAMES_ANOTHER_OPERATION

__all__ = ["DjangoCaller", "endpoint_url"]

_outer: ContextVar[Any] = ContextVar("ferrule_django_outer_request", default=None)
_principal: ContextVar[DjangoPrincipal | None] = ContextVar("ferrule_django_principal", default=None)
_verified: ContextVar[VerifiedSender | None] = ContextVar("ferrule_django_verified", default=None)
_expects: ContextVar[Callable[[ResolverMatch], bool] | None] = ContextVar("ferrule_django_expects", default=None)
"""Whether a path leads to the view that the current request is meant for; ``None`` for any."""


def endpoint_url() -> str | None:
    """Return the URL of the endpoint while it calls a view; ``None`` for a request that comes from outside."""
    outer = _outer.get()
    return None if outer is None else outer.build_absolute_uri(outer.path)


class DjangoCaller:
    """Calls the views of this project.

    Args:
        threads: runs the views.
        target: the views.
        headers: the headers that views get.
    """

    needs_no_loop = True  # `NEEDS_NO_LOOP`: it waits for a thread only

    def __init__(self, threads: WorkerThreads, target: ExposedTarget, headers: ForwardedHeaders) -> None:
        self._threads = threads
        self._target = target
        self._headers = headers

    @cached_property
    def _wsgi(self) -> WSGICaller:
        # Made with the first call: a handler loads the middleware, which needs all applications.
        if sys.modules.get("rest_framework") is not None:  # which its views have imported
            give_to_views()
        return WSGICaller(_Handler(self._target.urlconf()))

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`."""
        principal = current_context().transport.principal
        principal = principal if isinstance(principal, DjangoPrincipal) else None
        _principal.set(principal)
        _verified.set(None if principal is None else principal.take_verified())
        outer: Any = None if origin.scope is None else origin.scope.get(REQUEST_KEY)
        _outer.set(outer)
        passed_on = self._headers.of(principal)
        origin = replace(origin, headers=tuple(pair for pair in origin.headers if pair[0] in passed_on))
        _expects.set(self._target.expects(request.method, request.route))
        request = self._target.finish(request)
        response: ApiResponse = await self._threads.run(
            _Call(self._wsgi), {"request": request, "origin": _with_host(origin), "max_bytes": max_bytes}
        )
        return response

    async def aclose(self) -> None:
        """Do nothing; the project is not the caller's."""


class _Call:
    """A request, for `WorkerThreads.run`."""

    has_transactions = True  # those of the views; see `without_transaction`

    def __init__(self, wsgi: WSGICaller) -> None:
        self._wsgi = wsgi

    def __call__(self, request: ApiRequest, origin: Origin, max_bytes: int) -> ApiResponse:
        return self._wsgi.call_sync(request, origin, max_bytes)


def _with_host(origin: Origin) -> Origin:
    """Return an origin that ``ALLOWED_HOSTS`` and ``SECURE_SSL_REDIRECT`` accept, where no outer request names one."""
    if origin.scope is not None:
        return origin
    scheme = "https" if settings.SECURE_SSL_REDIRECT else origin.scheme
    return replace(origin, host=own_host(), scheme=scheme)


class _Request(WSGIRequest):
    def __init__(self, environ: dict[str, Any]) -> None:
        super().__init__(environ)
        # Credentials are in headers, which a web page cannot set on another origin; where cookies are passed on, the
        # token is checked.
        self._dont_enforce_csrf_checks = "HTTP_COOKIE" not in environ
        self.verified_sender = _verified.get()  # see `give_to_views`
        principal = _principal.get()
        if principal is not None and principal.is_forced:
            self._cached_user = principal.user  # `AuthenticationMiddleware`
            self._force_auth_user = principal.user  # `rest_framework.request.Request`
            self._force_auth_token = principal.auth


class _Handler(WSGIHandler):
    request_class = _Request

    def __init__(self, urlconf: Any) -> None:
        super().__init__()
        self._urlconf = urlconf

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Serve a request as a part of the outer one, without Django's signals of requests.

        Their receivers would close the connection of this thread, which may be in a transaction.
        """
        request = self.request_class(environ)
        set_script_prefix(request.META["SCRIPT_NAME"])  # as Django has read it, by its settings
        response = self.get_response(request)
        headers = [*response.items(), *(("Set-Cookie", each.OutputString()) for each in response.cookies.values())]
        start_response(f"{response.status_code} {response.reason_phrase}", headers)
        return _Body(response)

    def get_response(self, request: Any) -> Any:
        """Return the response of a request; its URLconf is the handler's unless middleware names another."""
        if self._urlconf is not None:
            request.urlconf = self._urlconf
        response = super().get_response(request)
        if response.status_code == 403:
            name_missing_scopes(response)
        return response

    def resolve_request(self, request: Any) -> Any:
        """Return the view of a request, unless a value in the path leads to another view than the one that is meant."""
        match = super().resolve_request(request)
        expects = _expects.get()
        return match if expects is None or expects(match) else (_names_another, (), {})


class _Body:
    def __init__(self, response: Any) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._response)

    def close(self) -> None:
        """Close what the response has opened, such as files; the response's own method would send a signal."""
        for close in self._response._resource_closers:
            close()
        self._response.closed = True


def _names_another(request: Any, *args: Any, **kwargs: Any) -> JsonResponse:
    return JsonResponse({"detail": NAMES_ANOTHER_OPERATION}, status=404)
