"""Where clients learn how to sign in: the metadata of the protected resource (RFC 9728), as views of the project.

They stand below the endpoint, where the challenge of 401 points, and with ``path(".well-known/", mcp.well_known)`` at
the root of the site, where some clients look in any case. There are none without authorization servers: those of
``MCP["AUTHORIZATION_SERVERS"]``, or the project's own django-oauth-toolkit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol
from urllib.parse import urlsplit

from django.apps import apps
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, get_resolver, get_script_prefix, path, reverse, set_script_prefix
from django.urls.exceptions import NoReverseMatch
from django.urls.resolvers import RegexPattern, RoutePattern

from ferrule.auth.documents import ProtectedResource
from ferrule.auth.server.resource_server import metadata_answer
from ferrule.auth.urls import origin_of
from ferrule.django.access.authentication import authenticators_of
from ferrule.django.conf import DjangoSettings

__all__ = ["DescribedServer", "DjangoMetadata"]

_NAME = "oauth-protected-resource"
_BELOW = f".well-known/{_NAME}"
_TOOLKIT = "oauth2_provider"
"""The application of django-oauth-toolkit."""


class DescribedServer(Protocol):
    """What the metadata reads of a server."""

    @property
    def name(self) -> str:
        """See `DjangoServer`."""
        ...

    @property
    def settings(self) -> DjangoSettings:
        """See `DjangoServer`."""
        ...

    @cached_property
    def endpoint_pattern(self) -> URLPattern:
        """See `DjangoServer.endpoint_pattern`."""
        ...


class DjangoMetadata:
    """The metadata of one server.

    Args:
        server: the server.

    Attributes:
        below: the pattern of the document below the endpoint.
        at_root: the patterns below ``.well-known/``.
    """

    def __init__(self, server: DescribedServer) -> None:
        self._server = server
        self.below = URLPattern(
            RegexPattern(f"^(?:/)?{_BELOW.replace('.', '[.]')}$", is_endpoint=True), self._serve(is_below=True)
        )
        alone = RoutePattern(_NAME, "metadata", is_endpoint=True)
        whole = RegexPattern(f"^{_NAME}(?P<resource>/.+)$", "metadata-of", is_endpoint=True)
        self.at_root = [
            URLPattern(alone, self._serve(), name="metadata"),
            _OfEndpoint(whole, self._serve(), self),
            *_toolkit_patterns(),
        ]

    def url_for(self, request: Any) -> str | None:
        """Return the URL of the document for a request to the endpoint; ``None`` if there is none."""
        if not self._servers(request):
            return None
        endpoint = _whole_path(request.path)
        at_root = self._path_of(self.at_root[0], request)
        found = f"{endpoint.rstrip('/')}/{_BELOW}" if at_root is None else f"{at_root}{endpoint}"
        return f"{self._base(request, request.path)}{found}"

    def fits(self, resource: str) -> bool:
        """Return whether a path, as a client puts it behind the well-known one, is that of the endpoint."""
        found = self.endpoint_path()
        if found is None:
            return False
        without_prefix = "/" + found.removeprefix(get_script_prefix())
        return resource.rstrip("/") in (found.rstrip("/"), without_prefix.rstrip("/"))

    def _serve(self, *, is_below: bool = False) -> Any:
        def serve(request: HttpRequest, **_: str) -> HttpResponse:
            endpoint = request.path.removesuffix(_BELOW) if is_below else self.endpoint_path(request)
            document = None if endpoint is None else self._document(request, endpoint)
            if document is None:
                raise Http404("This server names no authorization server")
            status, body, headers = metadata_answer(request.method or "GET", document)
            response = HttpResponse(body, status=status, content_type="application/json")
            for name, value in headers:
                response.headers[name] = value
            return response

        made: Any = serve
        made.csrf_exempt = True
        made.login_required = False  # `LoginRequiredMiddleware` would redirect to a page
        return serve

    def _document(self, request: HttpRequest, endpoint: str) -> ProtectedResource | None:
        servers = self._servers(request)
        if not servers:
            return None
        scopes = self._server.settings.scopes_supported
        return ProtectedResource(
            resource=f"{self._base(request, endpoint)}{endpoint}",
            authorization_servers=servers,
            scopes_supported=list(_toolkit_scopes() if scopes is None else scopes) or None,
            bearer_methods_supported=["header"],
            resource_name=self._server.name,
        )

    def _base(self, request: HttpRequest, endpoint: str) -> str:
        """Return the part of the endpoint's public URL before the path that the project knows."""
        url = self._server.settings.url
        if url is None:
            return f"{request.scheme}://{request.get_host()}"
        public = urlsplit(url).path
        prefix = public.removesuffix(endpoint) if public.endswith(endpoint) else ""
        return f"{origin_of(url)}{prefix}"

    def _servers(self, request: HttpRequest) -> list[str]:
        given = self._server.settings.authorization_servers
        if given is not None:
            return list(given)
        each = authenticators_of(self._server.settings).each
        return _toolkit_issuers(request) if any(_is_of_toolkit(one) for one in each) else []

    def endpoint_path(self, request: HttpRequest | None = None) -> str | None:
        """Return the path of the endpoint in the URLconf of a request; ``None`` if it stands in none."""
        return self._path_of(self._server.endpoint_pattern, request)

    @staticmethod
    def _path_of(pattern: URLPattern, request: HttpRequest | None) -> str | None:
        """Return the path of a pattern, wherever the URLconf has it; ``None`` without, and for one with arguments."""
        urlconf = getattr(request, "urlconf", None)  # set by middleware
        name = next(_names_of(pattern, get_resolver(urlconf).url_patterns), None)
        if name is None:
            return None
        before = get_script_prefix()
        if request is not None:  # a thread of another request may serve this one
            set_script_prefix(f"{request.path.removesuffix(request.path_info)}/")
        try:
            return reverse(name, urlconf=urlconf)
        except NoReverseMatch:
            return None
        finally:
            set_script_prefix(before)


class _OfEndpoint(URLPattern):
    """Matches the path of one endpoint only, so that a project may have several servers."""

    def __init__(self, pattern: Any, view: Any, metadata: DjangoMetadata) -> None:
        super().__init__(pattern, view)
        self._metadata = metadata

    def resolve(self, path: str) -> Any:
        match = super().resolve(path)
        return match if match is None or self._metadata.fits(match.kwargs["resource"]) else None


def _names_of(pattern: URLPattern, patterns: Any) -> Iterator[str]:
    """Yield the names with namespaces under which a URLconf has a pattern."""
    for each in patterns:
        if each is pattern:
            yield str(pattern.name)
        elif hasattr(each, "url_patterns"):  # an included URLconf
            namespace = f"{each.namespace}:" if each.namespace else ""
            for name in _names_of(pattern, each.url_patterns):
                yield f"{namespace}{name}"


def _whole_path(path_: str) -> str:
    return path_ if path_.startswith("/") else f"/{path_}"


# -- django-oauth-toolkit ----------------------------------------------------------------------------------------------


def _is_of_toolkit(authenticator: object) -> bool:
    return any(base.__module__.startswith(f"{_TOOLKIT}.") for base in type(authenticator).__mro__)


def _toolkit_settings() -> Any:
    """Return the settings of django-oauth-toolkit; ``None`` where the project does not issue tokens itself."""
    if not apps.is_installed(_TOOLKIT):
        return None
    settings: Any = import_module(f"{_TOOLKIT}.settings").oauth2_settings
    return None if settings.RESOURCE_SERVER_INTROSPECTION_URL else settings


def _toolkit_issuers(request: HttpRequest) -> list[str]:
    settings = _toolkit_settings()
    if settings is None:
        return []
    find = getattr(settings, "oauth2_authorization_server_issuer", None)  # since version 3.4
    if find is not None:
        return [find(request)]
    return [settings.oidc_issuer(request)] if settings.OIDC_ENABLED else []


def _toolkit_scopes() -> list[str]:
    settings = _toolkit_settings()
    return [] if settings is None else sorted(settings.SCOPES_BACKEND_CLASS().get_available_scopes())


def _toolkit_patterns() -> list[URLPattern]:
    """Return the patterns of the authorization server's metadata (RFC 8414), which clients look for at the root."""
    if _toolkit_settings() is None:
        return []
    kind: Any = getattr(import_module(f"{_TOOLKIT}.views"), "OAuthServerMetadataView", None)  # since version 3.4
    if kind is None:
        return []
    name = "oauth-authorization-server"
    return [path(name, kind.as_view()), path(f"{name}/<path:issuer_path>", kind.as_view())]
