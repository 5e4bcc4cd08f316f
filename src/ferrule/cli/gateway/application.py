"""`GatewayApplication`: a gateway made of a configuration file, which it follows while it runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.cli.gateway.credentials import PER_CALLER, auth_maker, auth_of, needs_url, read_auth
from ferrule.cli.gateway.endpoint import SIGN_IN_PATH, GatewayEndpoint
from ferrule.cli.gateway.file import GatewayFile, read_file
from ferrule.cli.gateway.middleware import load_middleware
from ferrule.cli.gateway.protection import FrontProtection, make_protection
from ferrule.cli.gateway.watch import watch_file
from ferrule.cli.output import say
from ferrule.client.config_file import ConfigError, DisabledServer
from ferrule.client.gateway.gateway import Gateway
from ferrule.client.gateway.upstreams.settings import DEFAULT_SETTINGS, UpstreamSettings, settings_from
from ferrule.client.gateway.views import GatewayViews
from ferrule.client.targets import StdioTarget
from ferrule.stores.store import Store, nothing_is_open, open_store
from ferrule.transports.background import Background

if TYPE_CHECKING:
    from ferrule.client.gateway.credentials.sign_in import SignIns
    from ferrule.transports.asgi.endpoint import HttpEndpoint

__all__ = ["GatewayApplication", "load_gateway"]

logger = logging.getLogger("ferrule.gateway")

_FIXED: Final = ("name", "url", "store", "key", "tool_search", "middleware")
"""What is read at the start only."""


class GatewayApplication:
    """A gateway and what it is served with; a `ServedApplication`.

    Args:
        text: the configuration, as typed.
        http: whether it is served over HTTP.
        base_url: the URL of its endpoint, where the configuration names none; ``None``: not known.
        path: the path of its endpoint.
        store: the URL of the store, in place of that of the configuration.
        options: options of `Gateway`.

    Attributes:
        gateway: the gateway.
        file: the configuration in force.
        store: the store; ``None`` without.
        extensions: empty.
        problem: why the file as it is now was not taken; ``None`` while it is in force.

    Raises:
        ValueError: the configuration is malformed.
    """

    def __init__(
        self,
        text: str,
        *,
        http: bool,
        base_url: str | None = None,
        path: str = "/mcp",
        store: str | None = None,
        **options: Any,
    ) -> None:
        self._text = text
        self._http = http
        self.file = read_file(text)
        self.problem: str | None = None
        self.extensions: Mapping[str, Any] = {}
        url = store or self.file.store
        self.store: Store | None = None if url is None else open_store(url)
        self._base_url = self.file.url or base_url
        self._storage: Any = None
        self.sign_ins = self._make_sign_ins()
        targets: dict[str, Any] = {}
        settings: dict[str, UpstreamSettings] = {}
        for name, entry in self._wanted(self.file).items():
            targets[name], settings[name] = self._upstream(self.file, name, entry)
        self.protection: FrontProtection | None = None
        if self.file.auth is not None:
            self.protection = FrontProtection(make_protection(self.file.auth, self.file.url, self.store))
        self.gateway = Gateway(
            targets,
            name=self.file.name,
            settings=settings,
            protection=self.protection,
            server_middleware=load_middleware(
                self.file.middleware, self.file.path.parent, f"{self.file.path}: middleware"
            ),
            **options,
        )
        self.lowlevel = self.gateway.server
        if self.store is not None:
            self.lowlevel.attachments[Store] = self.store
        self.views = GatewayViews(self.gateway, self.file.views, self.file.default_view, path)
        # Behind the middleware of the options: a policy must see the lists of a view, too.
        self.lowlevel.middleware.insert(len(self.lowlevel.middleware) - 1, self.views)
        self.lowlevel.wrap_lifespan(self._around)
        self._turn = anyio.Lock()
        if http and self.file.auth is None and self._per_caller:
            raise ConfigError(
                f"{self.file.path}: {self._per_caller[0]} is used with each caller's own credentials, and the gateway "
                "does not know its callers: put 'auth' into 'gateway'"
            )

    # -- the servers behind -----------------------------------------------------------------------------------------

    @property
    def _per_caller(self) -> list[str]:
        """The servers that are used with each caller's own credentials."""
        found = [(name, said.auth) for name, said in self.file.servers.settings.items() if said.auth is not None]
        return [name for name, auth in found if read_auth(auth, name).kind in PER_CALLER]

    def _make_sign_ins(self) -> SignIns | None:
        if not self._http or self._base_url is None:
            return None
        from ferrule.client.gateway.credentials.sign_in import SignIns

        # Without a store, a page and the process that waits for it are the same.
        return SignIns(f"{self._base_url.rstrip('/')}{SIGN_IN_PATH}", self.store or open_store("memory:"))

    def _tokens(self) -> Any:
        """Return the storage of tokens: the store where it is shared, else a folder of this user."""
        if self._storage is None:
            if self.store is not None and self.store.is_shared and self.file.key is not None:
                from ferrule.client.gateway.credentials.storage import StoreStorage

                self._storage = StoreStorage(self.store, self.file.key)
            else:
                from ferrule.auth import EncryptedFileStorage

                self._storage = EncryptedFileStorage()
        return self._storage

    def _wanted(self, file: GatewayFile) -> dict[str, Any]:
        """Return the entries that are not disabled."""
        return {name: target for name, target in file.servers.servers.items() if not isinstance(target, DisabledServer)}

    def _upstream(self, file: GatewayFile, name: str, target: Any) -> tuple[Any, UpstreamSettings]:
        """Return the target and the settings of a server, or the error of its entry in place of the target."""
        said = file.servers.settings.get(name)
        settings = DEFAULT_SETTINGS if said is None else settings_from(said)
        if isinstance(target, Exception):
            return target, settings
        if isinstance(target, StdioTarget) and target.server.stderr == "capture":
            target = replace(target, server=replace(target.server, stderr=say))
        if said is None or said.auth is None:
            return target, settings
        where = f"{file.path}: {name}"
        try:
            found, at = read_auth(said.auth, f"{where}.auth"), needs_url(name, target, str(file.path))
            if found.kind not in PER_CALLER:
                return replace(at, auth=auth_of(found, self._tokens())), settings
            if found.kind == "user" and self._http and self.sign_ins is None:
                raise ConfigError(f"{where}: callers sign in at the gateway's pages: put its 'url' into 'gateway'")
            from ferrule.client.gateway.credentials.user_server import UserServer

            make = auth_maker(found, self._tokens(), self.sign_ins)
            return UserServer(name, at, make, {}).server, replace(settings, is_per_user=True)
        except (ValueError, OSError) as error:
            return error, settings

    # -- following the file ---------------------------------------------------------------------------------------

    async def reload(self) -> bool:
        """Read the file again and take what changed; return whether it could be taken.

        Servers whose entry is the same keep their connections and sessions. A file that is malformed changes nothing;
        the log and `problem` say why.
        """
        async with self._turn:
            try:
                file = await anyio.to_thread.run_sync(read_file, self._text)
                await self._take(file)
            except (ValueError, OSError) as error:
                self._note_problem(str(error))
                return False
            self._note_problem(None)
            return True

    def _note_problem(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            logger.error("The configuration is not taken, the last one stays in force: %s", problem)
        self.problem = problem
        self.gateway.notice = (
            None if problem is None else f"The configuration was changed and is not in force: {problem}"
        )

    async def _take(self, file: GatewayFile) -> None:
        fixed = [key for key in _FIXED if getattr(file, key) != getattr(self.file, key)]  # one rule for several fields
        if fixed:
            logger.warning("Changes of %s take effect after a restart", ", ".join(fixed))
        if (file.auth is None) is not (self.protection is None):
            raise ConfigError(f"{file.path}: 'auth' of 'gateway' is added and removed by a restart")
        for name in self._broken(file):
            raise file.servers.servers[name]
        protection = None if file.auth is None else make_protection(file.auth, file.url, self.store)
        self.views.replace(file.views, file.default_view)
        if self.protection is not None and protection is not None and file.auth != self.file.auth:
            self.protection.current = protection
        before, self.file = self.file, file
        old, new = self._wanted(before), self._wanted(file)
        for name in old.keys() - new.keys():
            await self.gateway.remove_upstream(name)
            logger.info("The server %r was removed", name)
        for name, target in new.items():
            if name in old and file.entries.get(name) == before.entries.get(name):
                continue
            await self.gateway.set_upstream(name, *self._upstream(file, name, target))
            logger.info("The server %r was %s", name, "changed" if name in old else "added")

    def _broken(self, file: GatewayFile) -> list[str]:
        """Return the entries that cannot be used and are not the same as before."""
        return [
            name
            for name, target in self._wanted(file).items()
            if isinstance(target, Exception) and file.entries.get(name) != self.file.entries.get(name)
        ]

    # -- serving ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _around(self, inner: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
        async with AsyncExitStack() as stack:
            if self.store is not None and self.store.aclose is not nothing_is_open:
                stack.push_async_callback(self.store.aclose)
            state = await stack.enter_async_context(inner)
            if self.store is not None and self.store.channel is not None:
                from ferrule.kernel.changes.relay import relayed

                await stack.enter_async_context(relayed(self.lowlevel.bus, self.store.channel))
            background = Background()
            stack.push_async_callback(background.aclose)
            background.start(watch_file(self.file.path, self.reload), "ferrule-gateway-config")
            yield state

    def asgi(self, **options: Any) -> HttpEndpoint:
        """Return the endpoint; ``options`` are those of `HttpOptions`."""
        from ferrule.app.serving.http import http_options

        return GatewayEndpoint(self.lowlevel, http_options(self, options), self.views, self.sign_ins)

    def serve_worker(self, sockets: list[Any], payload: dict[str, Any], on_started: Callable[..., None]) -> None:
        """Serve on inherited sockets; see `ferrule.MCPServer.serve_worker`."""
        from ferrule.app.serving.http import serve_http
        from ferrule.app.serving.workers import take_payload

        host, port, options = take_payload(self, payload)
        serve_http(self, host, port, {**options, "sockets": sockets, "on_started": on_started})


def load_gateway(text: str, folder: str, options: dict[str, Any]) -> GatewayApplication:
    """Return the gateway of a configuration; called in each worker.

    Args:
        text: the configuration, as typed.
        folder: the working directory of the first process.
        options: those of `GatewayApplication`.
    """
    import os

    if Path(folder) != Path.cwd():
        os.chdir(folder)
    return GatewayApplication(text, **options)
