"""Mounting one server in another: its components become the other's, in one index.

A mounted component is a copy of the original under its new name, with the original's function, options and threads, so
that a call costs the same at any depth. Copies follow: what is added to, removed from, enabled or disabled in the
mounted server is so in the other one too, through every level, and so are updates of its resources. What the other
one has disabled or removed itself stays so: a component is shown where every server on the way shows it. A name that is
taken on the way is refused where it is registered, before anything has changed.

What is the mounted server's own stays with its components (`ferrule.app.components.mount_path`). Its lifespan is
entered inside the other's, and its functions and completers see its state in ``ctx.lifespan``. Its middleware, as it is
when mounted, runs inside the other's around calls of its tools, reads of its resources, its prompts and their
completions: it sees them under its own names, may refuse them, change a tool's or prompt's arguments and the result,
but not send them elsewhere. Lists are the outermost server's. Tasks are served where that one serves them; elsewhere a
mounted tool answers within its call.
"""

from __future__ import annotations

import copy
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from ferrule.app.components.index import ComponentIndex
from ferrule.app.components.mount_path import Home, Level, home_of
from ferrule.app.errors import RegistrationError
from ferrule.kernel.changes.bus import RESOURCE_UPDATED, Event
from ferrule.wire.uri_template import UriTemplate, normal_uri

if TYPE_CHECKING:
    from ferrule.app.components.resources import ResourceComponent
    from ferrule.app.components.tools import ToolComponent
    from ferrule.app.server import MCPServer

__all__ = ["Mount", "nested_lifespans"]

_LATE_FACTS = ("guard", "task", "task_after_s", "resumable")
"""What is set on a component after it was added; a copy without its guard would be a hole."""

_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,64}")


def prefixed_uri(uri: str, prefix: str) -> str:
    """``data://stock`` under ``shop`` is ``data://shop/stock``; without ``//`` it is ``data:shop/stock``."""
    scheme, colon, rest = uri.partition(":")
    if rest.startswith("//"):
        return f"{scheme}://{prefix}/{rest[2:]}"
    return f"{scheme}{colon}{prefix}/{rest}"


def unprefixed_uri(uri: str, prefix: str) -> str:
    """What `prefixed_uri` made it of."""
    scheme, colon, rest = uri.partition(":")
    slashes = "//" if rest.startswith("//") else ""
    return f"{scheme}{colon}{slashes}{rest[len(slashes) :].removeprefix(f'{prefix}/')}"


class Mount:
    """One server inside another.

    Args:
        host: gets the components.
        guest: has them.
        prefix: before their names (``prefix_name``) and in their URIs; ``None`` for none.

    Raises:
        RegistrationError: a name is taken, the prefix is malformed, the guest holds the host, the guest is no
            `MCPServer`, or it has ``auth=`` and the host has none.
    """

    def __init__(self, host: MCPServer[Any], guest: MCPServer[Any], prefix: str | None) -> None:
        if prefix is not None and not _PREFIX.fullmatch(prefix):
            raise RegistrationError(f"The prefix {prefix!r} is not 1 to 64 of: letters, digits, '_', '-'")
        if not hasattr(guest, "mounts"):  # a proxy, a low-level server
            raise RegistrationError(
                f"Only an MCPServer can be mounted, not a {type(guest).__name__}: several servers behind one "
                "address are `ferrule run` with a configuration file"
            )
        if host is guest or host in _guests_of(guest):
            raise RegistrationError(f"{guest.name!r} cannot be mounted in itself")
        if guest.lowlevel.protection is not None and host.lowlevel.protection is None:
            raise RegistrationError(
                f"{guest.name!r} has auth= and {host.name!r} has none, so that everybody could use what is protected: "
                "give the host auth= too; it decides then for both"
            )
        self.host = host
        self.guest = guest
        self._prefix = prefix
        self._level = Level(guest, tuple(guest.lowlevel.middleware), self._own_name, self._own_uri)
        for source, target, name in self._pairs():  # all of them first: nothing is mounted by halves
            for key in dict(source.items()):
                target.check_free(name(key))
        self._follow(guest.tools.index, host.tools.index, self._name, host.tools.serve)
        self._follow(guest.prompts.index, host.prompts.index, self._name, host.prompts.serve)
        self._follow(guest.resources.fixed, host.resources.fixed, self._uri, host.resources.serve)
        self._follow(guest.resources.templates, host.resources.templates, self._uri, host.resources.serve)
        guest.completions.followers.append(self._complete)
        self._complete()
        if guest.lowlevel.bus is not host.lowlevel.bus:
            guest.lowlevel.bus.add_relay(self._pass_update)

    def _pairs(self) -> list[tuple[ComponentIndex[Any], ComponentIndex[Any], Callable[[str], str]]]:
        guest, host = self.guest, self.host
        return [
            (guest.tools.index, host.tools.index, self._name),
            (guest.prompts.index, host.prompts.index, self._name),
            (guest.resources.fixed, host.resources.fixed, self._uri),
            (guest.resources.templates, host.resources.templates, self._uri),
        ]

    def _pass_update(self, event: Event) -> None:
        """What changed in the guest is told to whoever subscribed in the host, under the URI that it has there."""
        if event.method == RESOURCE_UPDATED:
            uri = self._uri(event.params["uri"])
            self.host.lowlevel.bus.publish(Event(event.method, normal_uri(uri), {**event.params, "uri": uri}))

    def _name(self, name: str) -> str:
        return name if self._prefix is None else f"{self._prefix}_{name}"

    def _uri(self, uri: str) -> str:
        return uri if self._prefix is None else prefixed_uri(uri, self._prefix)

    def _own_name(self, name: str) -> str:
        return name if self._prefix is None else name.removeprefix(f"{self._prefix}_")

    def _own_uri(self, uri: str) -> str:
        return uri if self._prefix is None else unprefixed_uri(uri, self._prefix)

    def _home_of(self, inner: Home | None) -> Home:
        return home_of(self._level, inner)

    def _follow(
        self,
        source: ComponentIndex[Any],
        target: ComponentIndex[Any],
        name: Callable[[str], str],
        serve: Callable[[], None],
    ) -> None:
        """Bring ``target`` up to date with ``source``, now and after each change."""
        copies: dict[str, tuple[Any, Any]] = {}
        removed: set[str] = set()  # taken away in the host, which holds for whatever comes back under that name

        def check_free(key: str) -> None:
            if key not in removed:
                target.check_free(name(key))

        def bring_up_to_date() -> None:
            for key, (original, made) in list(copies.items()):
                if target.get(name(key)) is not made:
                    removed.add(key)
                elif source.get(key) is not original:
                    target.remove(name(key), is_mounted=True)
                    self._forget_headers(target, name(key))
                else:
                    continue
                del copies[key]
            for key, original in source.items():
                if key in removed:
                    continue
                if key not in copies:
                    made = self._copy(original, name(key))
                    made.is_offered = original.enabled and original.is_offered
                    copies[key] = original, made
                    target.add(name(key), made, is_mounted=True)
                    serve()
                made = copies[key][1]
                for fact in _LATE_FACTS:
                    if hasattr(original, fact):
                        setattr(made, fact, getattr(original, fact))
                if hasattr(made, "task"):
                    self._prepare(made)
                target.set_offered(name(key), original.enabled and original.is_offered)
            target.touch()
            target.is_guarded = target.is_guarded or source.is_guarded

        source.checks.append(check_free)
        source.followers.append(bring_up_to_date)
        bring_up_to_date()

    def _copy(self, original: Any, name: str) -> Any:
        made = copy.copy(original)
        made.home = self._home_of(original.home)
        if hasattr(original, "uri"):
            resource = cast("ResourceComponent", made)
            resource.uri = name
            resource.template = None if original.template is None else UriTemplate(name)
            return resource
        made.name = name
        if hasattr(original, "run"):  # a tool compiles its call for itself, with its own name in its messages
            made.run = made._first_run
            plan = self.guest.lowlevel.param_headers.get(original.name)
            if plan:
                self.host.lowlevel.param_headers[name] = plan
        return made

    def _prepare(self, tool: ToolComponent) -> None:
        """The host's extensions stand around a mounted tool, not the guest's, which do not run."""
        extensions = list(self.host.extensions.values())
        if not any(extension.serves_tasks for extension in extensions):
            tool.task = "forbidden"
        for extension in extensions:
            extension.prepare_tool(tool)

    def _forget_headers(self, target: ComponentIndex[Any], name: str) -> None:
        if target is self.host.tools.index:
            self.host.lowlevel.param_headers.pop(name, None)

    def _complete(self) -> None:
        self.host.completions.take_over(self.guest.completions, self._name, self._uri, self._home_of)


def _guests_of(server: MCPServer[Any]) -> list[MCPServer[Any]]:
    found: list[MCPServer[Any]] = []
    for mount in server.mounts:
        found += [mount.guest, *_guests_of(mount.guest)]
    return found


@asynccontextmanager
async def nested_lifespans(app: MCPServer[Any], own: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    """A server's own lifespan, and inside it those of the servers mounted in it, in the order of mounting."""
    async with AsyncExitStack() as stack:
        state = await stack.enter_async_context(own)
        for mount in app.mounts:
            guest = mount.guest
            nothing: AbstractAsyncContextManager[Any] = nullcontext(cast("Any", {}))
            theirs = nothing if guest.own_lifespan is None else guest.own_lifespan(guest)
            before = guest.lifespan_state
            guest.lifespan_state = await stack.enter_async_context(nested_lifespans(guest, theirs))
            stack.callback(setattr, guest, "lifespan_state", before)
        yield state
