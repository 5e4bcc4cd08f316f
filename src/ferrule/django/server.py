"""`DjangoServer`: an `MCPServer` whose tools are views and functions of a Django project."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any, Final, Unpack, cast
from weakref import WeakSet

from django.conf import settings as project
from django.urls import URLPattern
from django.utils.text import slugify

from ferrule.app.execution.invoke import ErrorTranslator
from ferrule.app.rounds.settings import settings_of
from ferrule.app.server import MCPServer
from ferrule.django.access.metadata import DjangoMetadata
from ferrule.django.access.principals import DjangoPrincipal, local_principal
from ferrule.django.access.protection import DjangoProtection
from ferrule.django.access.public import PublicPatterns
from ferrule.django.conf import DjangoSettings, SettingError, django_settings, settings_from
from ferrule.django.exposing.exposures import DjangoExposures
from ferrule.django.exposing.kinds import target_of
from ferrule.django.exposing.visibility import Visibility
from ferrule.django.permissions import UserCheck
from ferrule.django.refusals import refusal_of
from ferrule.django.store.choice import store_of
from ferrule.django.store.keys import SecretKeys
from ferrule.django.threads import close_connections, in_request_thread, with_own_thread, without_open_transactions
from ferrule.django.views import DjangoEndpoint
from ferrule.expose.settings import ExposeKeywords
from ferrule.extensions.tasks.context import PrincipalReader
from ferrule.stores.store import Store
from ferrule.wire.json_types import is_object

__all__ = ["DjangoServer", "default_server", "follow_setting", "servers"]

_servers: WeakSet[DjangoServer] = WeakSet()

_FIXED: Final = frozenset(
    {
        "name",
        "version",
        "instructions",
        "text",
        "tool_search",
        "page_size",
        "module",
        "forward_headers",
        "store",
        "task_worker",
    }
)
"""Settings that are read once, when the server is made; the others are read again when ``MCP`` changes in a test."""

_DEBUG_HOSTS: Final = [".localhost", "127.0.0.1", "[::1]"]
"""Accepted by Django with ``DEBUG`` where ``ALLOWED_HOSTS`` is empty."""


class DjangoServer(MCPServer[Any]):
    """A server inside a Django project.

    Args:
        name: identifies the server to clients; ``None`` takes that of the setting ``MCP``.
        settings: a dict like the setting ``MCP``, whose keys replace those of the project; ``None`` for none.
        options: further options of `MCPServer`.

    Attributes:
        settings: the settings of this server.
        problem: what is wrong with the setting ``MCP``, so that the server refuses to start; ``None`` for nothing.

    Raises:
        SettingError: the setting ``MCP`` is wrong, or ``settings`` is.
    """

    def __init__(
        self, name: str | None = None, *, settings: DjangoSettings | Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        self._own_settings = settings
        self.settings = given = self._read_settings()
        self.problem: SettingError | None = None
        options = {
            "version": given.version,
            "instructions": given.instructions,
            "text": given.text,
            "tool_search": given.tool_search,
            "page_size": given.page_size,
            "store": given.store,
            "auth": DjangoProtection(self),
            **options,
        }
        if options["store"] is None or isinstance(options["store"], str):
            options["store"] = store_of(options["store"])
        super().__init__(given.name if name is None else name, **options)
        rounds = settings_of(self.lowlevel)
        rounds.share_keys(SecretKeys())
        rounds.around_question = without_open_transactions
        for pool in (self.threads, rounds.threads):
            pool.host, pool.on_thread_end = in_request_thread, close_connections
        _servers.add(self)
        self.lowlevel.attachments[PrincipalReader] = PrincipalReader(DjangoPrincipal.of_id)
        self.lowlevel.attachments[ErrorTranslator] = ErrorTranslator(refusal_of)
        if given.task_worker and not any(extension.serves_tasks for extension in self.extensions.values()):
            self._run_tasks_elsewhere(options["store"])
        self.exposures = DjangoExposures(self, given)
        self._protection = options["auth"]
        self._visibility = Visibility(self, self.exposures, self.threads)
        # The first ones: the middleware of the project sees who the sender is, and has the connections of the request.
        self._own_middleware = [with_own_thread, self._visibility.serve]
        self.lowlevel.middleware[:0] = self._own_middleware

    def expose(
        self,
        target: Any,
        *,
        actions: Iterable[str] | None = None,
        prefix: str | None = None,
        version: str | None = None,
        describe_as: Callable[[], Any] | None = None,
        **options: Unpack[ExposeKeywords],
    ) -> None:
        """Offer views as tools.

        Each call runs the view as a request to its URL does: middleware, authentication, permissions, throttles,
        filters and pagination. A view that stands in no URLconf gets an address of its own, which nothing else
        reaches.

        Args:
            target: a viewset, a view class, a view function with ``@api_view``, or a router of Django REST framework;
                or an API of Django Ninja.
            actions: the actions of a viewset that are offered, such as ``["list", "retrieve", "approve"]``; ``None``
                for all.
            prefix: only the addresses that begin with this path, for a view with several; ``None`` for all.
            version: the version of the API that calls ask for, for views with a versioning class; ``None`` for the
                default of each view. Where there is no default, a version in the path is an argument of the tools.
            describe_as: returns the user for whom views are described whose serializer depends on the user; ``None``
                for an anonymous one.
            options: how they are offered; see `ferrule.expose.settings.ExposeSettings`.

        Raises:
            TypeError: ``target`` is nothing of this kind, an option does not exist, or it is for targets of another
                kind: ``actions`` for a view that is no viewset; ``actions``, ``version`` and ``describe_as`` for an API
                of Django Ninja.
            NothingExposed: an action does not exist.
        """
        made = target_of(target, actions=actions, prefix=prefix, version=version, describe_as=describe_as)
        self.exposures.add(made, cast("dict[str, Any]", options))

    def _run_tasks_elsewhere(self, store: Store) -> None:
        from ferrule.django.store.executor import DatabaseExecutor
        from ferrule.django.store.tasks import DjangoTasks
        from ferrule.extensions.tasks import Tasks

        if not isinstance(store.tasks, DjangoTasks):
            raise SettingError("MCP['TASK_WORKER'] needs the store in a database: leave MCP['STORE'] out")
        self.add_extension(Tasks(executor=DatabaseExecutor(store.tasks.using)))

    def add_service(self, name: str, spec: Any, **options: Unpack[ExposeKeywords]) -> None:
        """Offer what a service or selector specification does as a tool.

        The tool runs as a view of Django REST framework: authentication, the permissions of the specification or of the
        project, throttles, validation by its input serializer, a transaction, the output serializer, and for a list
        filters and pagination.

        Args:
            name: the name of the tool.
            spec: the specification, known by its attributes: ``service``, ``input_serializer``, ``output_serializer``
                or ``output_selector_spec``, ``instance_selector_spec``, ``permission_classes``, ``atomic``; or
                ``selector``, ``kind``, ``output_serializer``, ``filter_set``.
            options: how it is offered; see `ferrule.expose.settings.ExposeSettings`.

        Raises:
            TypeError: it is no specification, or has something that is not supported.
        """
        from ferrule.django.exposing.services import view_of

        self.expose(view_of(name, spec), **options)

    @contextmanager
    def as_user(self, user: Any) -> Generator[None]:
        """Serve senders over stdio and in process as a user of the project, inside the ``with`` block.

        Views do not authenticate these requests again; permissions, throttles and querysets see the user.

        Args:
            user: the user; ``None`` for an anonymous sender.
        """
        token = local_principal.set(DjangoPrincipal(user, is_forced=True))
        try:
            yield
        finally:
            local_principal.reset(token)

    def check(self) -> None:
        """See `MCPServer.check`.

        Raises:
            SettingError: the setting ``MCP`` is wrong.
        """
        if self.problem is not None:
            raise self.problem
        super().check()

    @property
    def urls(self) -> tuple[list[URLPattern], str, str]:
        """For ``path("mcp/", mcp.urls)``: the endpoint of this server.

        Its URL is ``reverse("ferrule:endpoint")``; of a further server ``reverse("ferrule-NAME:endpoint")``, with the
        server's name.
        """
        return [self.endpoint_pattern, self.metadata.below, *self._public.below], "ferrule", self._namespace

    @property
    def well_known(self) -> tuple[list[URLPattern], str, str]:
        """For ``path(".well-known/", mcp.well_known)`` at the root of the site: how clients sign in (RFC 9728).

        With django-oauth-toolkit also the metadata of the authorization server (RFC 8414); after `card` also the
        catalog of server cards.
        """
        patterns = [*self.metadata.at_root, *self._public.at_root]
        return patterns, "ferrule-well-known", f"{self._namespace}-well-known"

    @property
    def _public(self) -> PublicPatterns:
        return PublicPatterns(self.lowlevel, self.endpoint, self.metadata.endpoint_path)

    @property
    def _namespace(self) -> str:
        is_default = bool(_made.cache_info().currsize) and self is _made()
        return "ferrule" if is_default else f"ferrule-{slugify(self.name)}"

    @cached_property
    def endpoint_pattern(self) -> URLPattern:
        """The URL pattern of the endpoint."""
        return self.endpoint.pattern("", "endpoint")

    @cached_property
    def metadata(self) -> DjangoMetadata:
        """The metadata with which clients sign in."""
        return DjangoMetadata(self)

    def follow_setting(self) -> set[str]:
        """Read the setting ``MCP`` again; return the changed keys that have no effect on a server that is made.

        Raises:
            SettingError: the setting is wrong now.
        """
        before, self.settings = self.settings, self._read_settings()
        if "endpoint" in self.__dict__:
            made = self._make_endpoint()
            self.endpoint.follow(made)
        return {name for name in _FIXED if getattr(before, name) != getattr(self.settings, name)}

    def _read_settings(self) -> DjangoSettings:
        given = self._own_settings
        if isinstance(given, DjangoSettings):
            return given
        return django_settings() if given is None else settings_from(given, django_settings())

    @cached_property
    def endpoint(self) -> DjangoEndpoint:
        """The endpoint of this server, as a view."""
        return self._make_endpoint()

    def _make_endpoint(self) -> DjangoEndpoint:
        options: dict[str, Any] = {
            "path": "/",
            "health_path": None,
            "ready_path": None,
            "max_body_bytes": self.settings.max_body_bytes,
            "allowed_hosts": _own_hosts(),
            "allowed_origins": [*self.settings.allowed_origins, *project.CSRF_TRUSTED_ORIGINS],
        }
        protection = self._protection
        facts_of = protection.facts_of if isinstance(protection, DjangoProtection) else _no_facts
        return DjangoEndpoint(self.wsgi(**options), self.asgi(**options), facts_of, self._needs_no_loop)

    def ask_ahead(self, request: Any, principal: DjangoPrincipal) -> None:
        """Find whether a sender may see the tool that the headers of a request say it calls, if they do; blocks.

        What is asked here, in the thread that has authenticated the request, takes no turn of the event loop later.
        """
        if request.META.get("HTTP_MCP_METHOD") == "tools/call":
            self._visibility.ask_about_tool(request.META.get("HTTP_MCP_NAME", ""), request, principal)

    def _needs_no_loop(self, message: Any) -> bool:
        """Return whether the thread of a request under WSGI can serve a message: a call of a view, or of a function.

        Middleware of the project may wait for anything, and an answer to a question begins its call with the loop.
        """
        params: Any = message.get("params") if is_object(message) and message.get("method") == "tools/call" else None
        if not is_object(params) or not _PLAIN_PARAMS.issuperset(params):
            return False
        name = params.get("name")
        tool = self.tools.index.live.get(name) if isinstance(name, str) else None
        entry = self.lowlevel.get_request_handler("tools/call")
        return (
            tool is not None
            and tool.needs_no_loop
            and (tool.guard is None or tool.guard.allow is None or isinstance(tool.guard.allow, UserCheck))
            and self.lowlevel.middleware == self._own_middleware
            and entry is not None
            and entry.handler == self.tools.handler
        )


_PLAIN_PARAMS = frozenset({"name", "arguments", "_meta"})


def _no_facts(_: Any) -> Mapping[str, Any]:
    return {}


def _own_hosts() -> list[str] | None:
    """Return the hosts whose pages may use the endpoint on their own host; ``None`` if Django accepts any host."""
    names = project.ALLOWED_HOSTS or (_DEBUG_HOSTS if project.DEBUG else [])
    if "*" in names:
        return None  # a page could bring its own name (DNS rebinding)
    return [each for name in names for each in ([name[1:], f"*{name}"] if name.startswith(".") else [name.strip("[]")])]


@lru_cache(maxsize=1)
def _made() -> DjangoServer:
    try:
        return DjangoServer()
    except SettingError as error:
        # The URLconf imports the server: `manage.py check` must still reach the check that names each wrong key.
        server = DjangoServer(settings=DjangoSettings())
        server.problem = error
        return server


_lock = threading.Lock()


def default_server() -> DjangoServer:
    """Return the server of the setting ``MCP``, made with the first call.

    If the setting is wrong, the server exists, and each start and each request of it fails with `SettingError`.

    Raises:
        ImproperlyConfigured: Django has no settings yet.
    """
    with _lock:  # two threads of a server may ask at once
        return _made()


def servers() -> list[DjangoServer]:
    """Return the servers of this process, in the order of their names."""
    return sorted(_servers, key=lambda server: server.name)


def follow_setting(*, warn: bool) -> None:
    """Let the default server, if it is made, read the setting ``MCP`` again, as after ``override_settings(MCP=…)``.

    Args:
        warn: name the changed keys that have no effect, in a `RuntimeWarning`.
    """
    if _made.cache_info().currsize:
        without_effect = default_server().follow_setting()
        if warn and without_effect:
            keys = ", ".join(sorted(name.upper() for name in without_effect))
            text = f"The server has been made: {keys} in override_settings(MCP=...) takes no effect. Use a DjangoServer"
            warnings.warn(f"{text}(settings={{...}}) of the test's own", RuntimeWarning, stacklevel=2)
