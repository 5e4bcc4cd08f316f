"""Mounting one server (the mounted server) in another (its parent): the parent serves the mounted components.

A mounted component is a copy of the original under its new name in the parent's index, with the original's function,
options and threads, so that a call costs the same at any depth. Copies are kept up to date: a component that is added
to, removed from, enabled or disabled in the mounted server changes in every parent too, and updates of its resources
are published there. A component that a parent has disabled or removed stays so: it is shown if every server on its
mount path shows it. Registering a name that is taken in a parent is refused before anything has changed.

The mounted server's settings apply to its components (`ferrule.app.components.mount_path`). Its lifespan is entered
inside the parent's, and its functions and completers see its state in ``ctx.lifespan``. Its middleware, as it is at the
time of mounting, runs inside the parent's for calls of its tools, reads of its resources, its prompts and their
completions: it sees them under their local names, may refuse them and change the arguments and the result, but cannot
redirect them to another component. Lists and tasks are served by the outermost server; where that has no tasks, a
mounted tool returns its result within the call.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, cast

from ferrule.app.components.index import ComponentIndex, ComponentT
from ferrule.app.components.mount_path import MountedServer, MountPath, MountPoint
from ferrule.app.components.registry import ComponentRegistry
from ferrule.app.components.tools import ToolComponent
from ferrule.app.errors import RegistrationError
from ferrule.kernel.changes.bus import RESOURCE_UPDATED, Event
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.wire.uri_template import normal_uri

if TYPE_CHECKING:
    from ferrule.app.components.completion import CompletionSet
    from ferrule.app.components.prompts import PromptSet
    from ferrule.app.components.resources import ResourceSet
    from ferrule.app.components.tools import ToolSet
    from ferrule.kernel.server import Server

__all__ = ["Mount", "MountableServer", "ToolExtension", "nested_lifespans"]

_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolExtension(Protocol):
    """The methods of an extension that mounting uses."""

    serves_tasks: ClassVar[bool]
    """Whether it runs tools that are registered with ``task=`` as tasks."""

    def prepare_tool(self, tool: ToolComponent, /) -> None:
        """Prepare a tool for calls, before its first one."""
        ...


class MountableServer(MountedServer, Protocol):
    """The members of both servers that mounting uses; implemented by `MCPServer`, which describes them."""

    @property
    def name(self) -> str: ...

    @property
    def lowlevel(self) -> Server[Any]: ...

    @property
    def tools(self) -> ToolSet: ...

    @property
    def resources(self) -> ResourceSet: ...

    @property
    def prompts(self) -> PromptSet: ...

    @property
    def completions(self) -> CompletionSet: ...

    @property
    def extensions(self) -> Mapping[str, ToolExtension]: ...

    @property
    def mounts(self) -> Sequence[Mount]: ...

    def check(self) -> None: ...


def prefixed_uri(uri: str, prefix: str) -> str:
    """Return a URI with a prefix: ``data://stock`` under ``shop`` is ``data://shop/stock``.

    Without ``//`` it is ``data:shop/stock``.
    """
    scheme, colon, rest = uri.partition(":")
    if rest.startswith("//"):
        return f"{scheme}://{prefix}/{rest[2:]}"
    return f"{scheme}{colon}{prefix}/{rest}"


def unprefixed_uri(uri: str, prefix: str) -> str:
    """Return the URI without the prefix; the inverse of `prefixed_uri`."""
    scheme, colon, rest = uri.partition(":")
    slashes = "//" if rest.startswith("//") else ""
    return f"{scheme}{colon}{slashes}{rest[len(slashes) :].removeprefix(f'{prefix}/')}"


class _Names:
    """Converts names and URIs of a mounted server to those in its parent, and back."""

    def __init__(self, prefix: str | None) -> None:
        self._prefix = prefix

    def outer_name(self, name: str) -> str:
        return name if self._prefix is None else f"{self._prefix}_{name}"

    def outer_uri(self, uri: str) -> str:
        return uri if self._prefix is None else prefixed_uri(uri, self._prefix)

    def local_name(self, name: str) -> str:
        return name if self._prefix is None else name.removeprefix(f"{self._prefix}_")

    def local_uri(self, uri: str) -> str:
        return uri if self._prefix is None else unprefixed_uri(uri, self._prefix)


class Mount:
    """One server mounted in another.

    Args:
        parent: the server that serves the components from now on.
        server: the mounted server.
        prefix: before the names (``prefix_name``) and in the URIs of its components; ``None`` for none.

    Attributes:
        parent, server: as given.

    Raises:
        RegistrationError: a name is taken, the prefix is malformed, the parent is mounted in the server, the server is
            not an `MCPServer`, or it has ``auth=`` and the parent has none.
    """

    def __init__(self, parent: MountableServer, server: MountableServer, prefix: str | None) -> None:
        if prefix is not None and not _PREFIX.fullmatch(prefix):
            raise RegistrationError(f"The prefix {prefix!r} is not 1 to 64 of: letters, digits, '_', '-'")
        if not isinstance(server, ComponentRegistry):  # such as a proxy or a low-level server
            raise RegistrationError(
                f"Only an MCPServer can be mounted, not a {type(cast('object', server)).__name__}: several servers "
                "behind one address are `ferrule run` with a configuration file"
            )
        if parent is server or parent in _servers_in(server):
            raise RegistrationError(f"{server.name!r} cannot be mounted in itself")
        if server.lowlevel.protection is not None and parent.lowlevel.protection is None:
            raise RegistrationError(
                f"{server.name!r} has auth= and {parent.name!r} has none, so that any client could use protected "
                f"components: set auth= of {parent.name!r} too; it then applies to both"
            )
        self.parent = parent
        self.server = server
        self._names = names = _Names(prefix)
        self._point = MountPoint(
            server, tuple(server.lowlevel.middleware), names.local_name, names.local_uri, names.outer_uri
        )
        name, uri = names.outer_name, names.outer_uri
        copies: list[_Copies[Any]] = [
            _ToolCopies(self.mount_path, server, parent, name),
            _Copies(self.mount_path, server.prompts.index, parent.prompts.index, name, parent.prompts.serve),
            _Copies(self.mount_path, server.resources.fixed, parent.resources.fixed, uri, parent.resources.serve),
            _Copies(
                self.mount_path, server.resources.templates, parent.resources.templates, uri, parent.resources.serve
            ),
        ]
        for each in copies:  # all of them before the first is copied: a mount that is refused changes nothing
            each.check_free()
        for each in copies:
            each.follow()
        server.completions.followers.append(self._take_completions)
        self._take_completions()
        if server.lowlevel.bus is not parent.lowlevel.bus:
            server.lowlevel.bus.add_relay(self._pass_update)

    def mount_path(self, inner: MountPath | None) -> MountPath:
        """Return the path from the parent to a component whose path in the mounted server is ``inner``."""
        return MountPath.through(self._point, inner)

    def _pass_update(self, event: Event) -> None:
        """Publish an update of a resource in the parent too, under its URI in the parent."""
        if event.method == RESOURCE_UPDATED:
            uri = self._names.outer_uri(event.params["uri"])
            self.parent.lowlevel.bus.publish(Event(event.method, normal_uri(uri), {**event.params, "uri": uri}))

    def _take_completions(self) -> None:
        self.parent.completions.take_over(
            self.server.completions, self._names.outer_name, self._names.outer_uri, self.mount_path
        )


class _Copies(Generic[ComponentT]):
    """The copies of one kind of component in the parent, kept up to date.

    Args:
        mount_path: function from the path of a component in the mounted server to its path from the parent.
        source: index of the mounted server.
        target: index of the parent.
        outer_key: function from a key in ``source`` to the key in ``target``.
        serve: registers the handlers of this kind of component in the parent.
    """

    def __init__(
        self,
        mount_path: Callable[[MountPath | None], MountPath],
        source: ComponentIndex[ComponentT],
        target: ComponentIndex[ComponentT],
        outer_key: Callable[[str], str],
        serve: Callable[[], None],
    ) -> None:
        self._mount_path = mount_path
        self._source = source
        self._target = target
        self._outer_key = outer_key
        self._serve = serve
        self._copies: dict[str, ComponentT] = {}  # by the key in the source
        # Keys removed in the parent; they stay removed if the mounted server registers them again.
        self._removed: set[str] = set()

    def check_free(self) -> None:
        """Check that no key is taken in the parent.

        Raises:
            RegistrationError: a key is taken.
        """
        for key in self._source.all_keys():
            self._target.check_free(self._outer_key(key))

    def follow(self) -> None:
        """Copy the components now, and update the copies after each change."""
        self._source.checks.append(self._check_key)
        self._source.followers.append(self._synchronize)
        self._target.sources.append(self._source)
        self._synchronize()

    def _check_key(self, key: str) -> None:
        if key not in self._removed:
            self._target.check_free(self._outer_key(key))

    def _synchronize(self) -> None:
        self._drop_old()
        for key, original in self._source.items():
            if key in self._removed:
                continue
            is_offered = original.enabled and original.is_offered
            outer_key = self._outer_key(key)
            if key not in self._copies:
                made = original.copy_for_mount(outer_key, self._mount_path(original.mount_path))
                made.is_offered = is_offered
                self._copies[key] = made
                self.before_add(original, made)
                self._target.add(outer_key, made, is_mounted=True)
                self._serve()
            made = self._copies[key]
            made.refresh()
            self.after_refresh(made)
            self._target.set_offered(outer_key, is_offered)
        self._target.touch()
        self._target.is_guarded = self._target.is_guarded or self._source.is_guarded
        self._target.has_unlisted = self._target.has_unlisted or self._source.has_unlisted

    def _drop_old(self) -> None:
        for key, made in list(self._copies.items()):
            outer_key = self._outer_key(key)
            if self._target.get(outer_key) is not made:
                self._removed.add(key)
            elif self._source.get(key) is not made.original:
                self._target.remove(outer_key, is_mounted=True)
                self.after_remove(outer_key)
            else:
                continue
            del self._copies[key]

    def before_add(self, original: ComponentT, made: ComponentT) -> None:
        """Called before a copy is added to the parent; for subclasses."""

    def after_refresh(self, made: ComponentT) -> None:
        """Called after a copy was updated; for subclasses."""

    def after_remove(self, outer_key: str) -> None:
        """Called after a copy was removed from the parent; for subclasses."""


class _ToolCopies(_Copies[ToolComponent]):
    """Copies of tools: the parent's extensions apply to them, and the parent keeps their header plans."""

    def __init__(
        self,
        mount_path: Callable[[MountPath | None], MountPath],
        server: MountableServer,
        parent: MountableServer,
        outer_key: Callable[[str], str],
    ) -> None:
        super().__init__(mount_path, server.tools.index, parent.tools.index, outer_key, parent.tools.serve)
        self._plans = server.lowlevel.attachments.made(MirroredHeaders).params
        self._parent = parent
        self._parent_plans = parent.lowlevel.attachments.made(MirroredHeaders).params

    def before_add(self, original: ToolComponent, made: ToolComponent) -> None:
        plan = self._plans.get(original.name)
        if plan:
            self._parent_plans[made.name] = plan

    def after_refresh(self, made: ToolComponent) -> None:
        extensions = list(self._parent.extensions.values())
        if not any(extension.serves_tasks for extension in extensions):
            made.task = "forbidden"
        # The mounted server's own extensions do not run, so they may not wrap the copy.
        for extension in extensions:
            extension.prepare_tool(made)

    def after_remove(self, outer_key: str) -> None:
        self._parent_plans.pop(outer_key, None)


def _servers_in(server: MountableServer) -> list[MountableServer]:
    found: list[MountableServer] = []
    for mount in server.mounts:
        found += [mount.server, *_servers_in(mount.server)]
    return found


@asynccontextmanager
async def nested_lifespans(app: MountableServer, own: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    """Enter a server's own lifespan, and inside it those of the servers mounted in it, in the order of mounting."""
    async with AsyncExitStack() as stack:
        state = await stack.enter_async_context(own)
        for mount in app.mounts:
            server = mount.server
            nothing: AbstractAsyncContextManager[Any] = nullcontext(cast("Any", {}))
            inner = nothing if server.own_lifespan is None else server.own_lifespan(server)
            before = server.lifespan_state
            server.lifespan_state = await stack.enter_async_context(nested_lifespans(server, inner))
            stack.callback(setattr, server, "lifespan_state", before)
        yield state
