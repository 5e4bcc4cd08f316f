"""System checks of ``manage.py check``: mistakes in the setting ``MCP`` and in what the project exposes.

None of them queries a database. A check that cannot decide, because the project is half configured, says nothing: what
stops the project is reported by Django. Each hint names the place in ``docs/reference/django-checks.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final, cast

from django.conf import settings
from django.core import checks
from django.db import connections
from django.urls import URLPattern, get_resolver

from ferrule.app.server import MCPServer
from ferrule.django import discovery
from ferrule.django.access.tokens import authentication_classes
from ferrule.django.conf import settings_problems
from ferrule.django.exposing.targets import ExposedTarget
from ferrule.django.server import DjangoServer, servers
from ferrule.expose.exposure import Exposure

__all__ = ["register_checks"]

_PAGE: Final = "docs/reference/django-checks.md"
_MAX_NAMES: Final = 10
"""Names in one message."""

_Messages = list[checks.CheckMessage]


def register_checks() -> None:
    """Register the checks of this module."""
    for check in (check_setting, check_modules, check_exposed, check_functions):
        checks.register(check)
    for check in (check_login, check_endpoint, check_metadata):
        checks.register(check, checks.Tags.security)
    checks.register(check_deployment, checks.Tags.security, deploy=True)


def _quiet(check: Callable[[], _Messages]) -> Callable[..., _Messages]:
    """Return a check as Django calls it, which says nothing where the project does not let it decide."""

    def run(app_configs: Sequence[Any] | None = None, **_: Any) -> _Messages:
        try:
            with _no_queries():
                with suppress(Exception):
                    list(_patterns())  # the URLconf makes servers
                return check()
        except Exception:  # of the project's code; Django's own checks and the log of the server name it
            return []

    run.__name__, run.__doc__ = check.__name__, check.__doc__  # not its signature, which Django looks at
    return run


@_quiet
def check_setting() -> _Messages:
    """E001: the setting ``MCP`` has a wrong key."""
    return [_error(1, problem.text, problem.hint or "Change it in the settings of the project.")
            for problem in settings_problems()]  # fmt: skip


@_quiet
def check_modules() -> _Messages:
    """E002: a module ``mcp`` could not be imported."""
    hint = "Nothing that it exposes is offered. Correct the module; the log has the traceback."
    return [
        _error(2, f"{module} could not be imported: {_text(error)}", hint)
        for module, error in discovery.failures.items()
    ]


@_quiet
def check_exposed() -> _Messages:
    """E003, W004, W006, W007 and W014: what is exposed of the views of the project, and described for the model."""
    return [message for server in servers() for message in _Survey(server).messages()]


@_quiet
def check_functions() -> _Messages:
    """W005: functions that everybody may call."""
    made: _Messages = []
    for server in servers():
        if server.settings.require_login:
            continue
        names = [name for name, tool in _tools(server).items() if tool.guard is None]  # views have one
        if names:
            text = f"Everybody may call functions of the server {server.name!r}, which needs no login: {_names(names)}."
            hint = "Give the tools allow= or scopes=, or set REQUIRE_LOGIN to True."
            made.append(_warning(5, text, hint))
    return made


@_quiet
def check_login() -> _Messages:
    """W008: no request can have valid credentials."""
    made: _Messages = []
    for server in servers():
        if server.settings.require_login and not authentication_classes(server):
            text = (
                f"The server {server.name!r} requires a login, has no authentication class, and refuses each request."
            )
            hint = (
                "Name a class that reads a header in REST_FRAMEWORK['DEFAULT_AUTHENTICATION_CLASSES'] or in "
                "MCP['AUTHENTICATION']: those that read the session count only with SESSION_AUTHENTICATION."
            )
            made.append(_warning(8, text, hint))
    return made


@_quiet
def check_endpoint() -> _Messages:
    """W009: a server with tools that no URL leads to."""
    routed = {id(_endpoint_of(pattern)) for pattern in _patterns()}
    return [
        _warning(
            9,
            f"No URL leads to the server {server.name!r}.",
            "Add path('mcp/', mcp.urls) to the URLconf, or silence this check if it is served over stdio only.",
        )
        for server in servers()
        if id(server.endpoint) not in routed and (_tools(server) or server.exposures.waiting)
    ]


@_quiet
def check_metadata() -> _Messages:
    """W010: clients look for the way to sign in at the root of the site."""
    routed = {id(pattern) for pattern in _patterns()}
    made: _Messages = []
    known: list[Any] = [*servers()]
    for server in known:
        at_root = {id(pattern) for pattern in server.metadata.at_root}
        if server.settings.authorization_servers and not at_root & routed:
            text = (
                f"AUTHORIZATION_SERVERS of the server {server.name!r} is set, and no metadata at the root of the site."
            )
            hint = "Add path('.well-known/', mcp.well_known) to the URLconf: some clients look only there."
            made.append(_warning(10, text, hint))
    return made


@_quiet
def check_deployment() -> _Messages:
    """W011 to W013: settings of development."""
    made: _Messages = []
    if settings.DEBUG:
        text = "DEBUG is on: errors of exposed views show the settings and the source to every client that calls them."
        made.append(_warning(11, text, "Set DEBUG to False."))
    open_servers = [server.name for server in servers() if not server.settings.require_login]
    if open_servers:
        text = f"REQUIRE_LOGIN is False: everybody may list and call tools of {_names(open_servers)}."
        made.append(_warning(12, text, "Remove it from MCP, or silence this check if the tools are public."))
    if "*" in settings.ALLOWED_HOSTS:
        text = "ALLOWED_HOSTS has '*': a web page may reach the MCP endpoint by a name of its own (DNS rebinding)."
        made.append(_warning(13, text, "Name the hosts of the site."))
    return made


class _Survey:
    """What a server exposes, as it would be offered: nothing is registered on the server itself.

    Args:
        server: the server.
    """

    def __init__(self, server: DjangoServer) -> None:
        self._server = server
        self._found: dict[tuple[int, Any], checks.CheckMessage] = {}
        self._undescribed: list[str] = []

    def messages(self) -> _Messages:
        """Return the messages of the checks."""
        exposures = self._server.exposures
        for target, exposure in exposures.made:
            self._look_at(target, exposure)
        for target, settings_, _ in exposures.waiting:
            nothing: Any = None
            exposure = Exposure(MCPServer("survey"), nothing, settings_)
            try:
                exposure.update(target.describe().operations)
            except _Queried:
                continue
            except Exception as error:
                self._failed(error)
            self._look_at(target, exposure)
        for failure in exposures.failures:
            self._failed(failure)
        exposed = {name for _, exposure in exposures.made for name in exposure.operations}
        for name, tool in _tools(self._server).items():
            if name not in exposed and not tool.definition().description:
                self._undescribed.append(name)
        if self._undescribed:
            text = f"Tools of the server {self._server.name!r} have no description: {_names(self._undescribed)}."
            hint = "A model chooses tools by it. Write a docstring, @extend_schema(description=...), or describe=."
            self._found[7, None] = _warning(7, text, hint)
        return list(self._found.values())

    def _failed(self, error: Exception) -> None:
        text = f"A part of what the server {self._server.name!r} exposes cannot be offered: {_text(error)}"
        hint = "Name a view that a URL leads to or that can be called by itself, and actions and options it has."
        self._found[3, text] = _error(3, text, hint)

    def _look_at(self, target: ExposedTarget, exposure: Exposure) -> None:
        methods: dict[type[Any], list[str]] = {}
        for kind, method in target.without_effect():
            methods.setdefault(kind, []).append(f"{kind.__name__}.{method}")
        for kind, names in methods.items():
            text = f"@extend_schema has no effect on {_names(names)}: the schema class is not that of drf-spectacular."
            hint = "Set REST_FRAMEWORK['DEFAULT_SCHEMA_CLASS'] = 'drf_spectacular.openapi.AutoSchema'."
            self._found.setdefault((14, kind), _warning(14, text, hint, obj=kind))
        for name, operation in exposure.operations.items():
            if not operation.description and exposure.settings.of(exposure.settings.describe, operation) is None:
                self._undescribed.append(name)
            view = target.view_of(operation)
            if view is None:
                continue
            kind = cast("Any", type(view))
            if not operation.is_read_only and _is_open(view):
                text = f"{kind.__name__} is exposed without a permission: every sender may call what it changes."
                hint = "Set permission_classes on the view, or DEFAULT_PERMISSION_CLASSES."
                self._found.setdefault((4, kind), _warning(4, text, hint, obj=kind))
            if _is_list(operation, view) and not _is_paginated(view):
                text = f"The list of {kind.__name__} is exposed without pagination: one call returns all rows."
                hint = "Set pagination_class on the view, or DEFAULT_PAGINATION_CLASS and PAGE_SIZE."
                self._found.setdefault((6, kind), _warning(6, text, hint, obj=kind))


def _tools(server: DjangoServer) -> dict[str, Any]:
    """Return the registered tools by name, without those of views that are not made yet."""
    return {tool.name: tool for tool in server.tools.index}


def _is_open(view: Any) -> bool:
    from rest_framework.permissions import AllowAny

    return all(isinstance(each, AllowAny) for each in view.get_permissions())


def _is_list(operation: Any, view: Any) -> bool:
    from rest_framework.mixins import ListModelMixin

    # Only viewsets have an action; a view of another class with this mixin is a list.
    return operation.method == "GET" and isinstance(view, ListModelMixin) and getattr(view, "action", "list") == "list"


def _is_paginated(view: Any) -> bool:
    from rest_framework.pagination import LimitOffsetPagination

    paginator = view.paginator
    if paginator is None:
        return False
    name = "default_limit" if isinstance(paginator, LimitOffsetPagination) else "page_size"
    return getattr(paginator, name, True) is not None  # a paginator of the project's own has neither


def _patterns(patterns: Iterable[Any] | None = None) -> Iterator[URLPattern]:
    for each in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(each, URLPattern):
            yield each
        else:
            yield from _patterns(each.url_patterns)


def _endpoint_of(pattern: URLPattern) -> Any:
    return getattr(pattern.callback, "mcp_endpoint", None)  # an attribute of the views of endpoints


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(sorted(names)[:_MAX_NAMES]) + more


def _error(number: int, text: str, hint: str) -> checks.CheckMessage:
    return checks.Error(text, hint=_with_page(hint, f"E{number:03}"), id=f"ferrule.E{number:03}")


def _warning(number: int, text: str, hint: str, obj: Any = None) -> checks.CheckMessage:
    return checks.Warning(text, hint=_with_page(hint, f"W{number:03}"), obj=obj, id=f"ferrule.W{number:03}")


def _with_page(hint: str, name: str) -> str:
    return f"{hint} See {_PAGE}#{name.lower()}"


class _Queried(Exception):
    """A check came to a query."""


@contextmanager
def _no_queries() -> Generator[None]:
    def refuse(*_: Any) -> Any:
        raise _Queried

    with ExitStack() as stack:
        with suppress(Exception):  # of a wrong setting DATABASES, where nothing can query
            for connection in connections.all():
                stack.enter_context(connection.execute_wrapper(refuse))
        yield
