"""`Component` and `SetSettings`: what tools, resources and prompts have in common, and the sets of them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from ferrule.app.authorization.guards import Guard
    from ferrule.app.components.mount_path import MountPath
    from ferrule.app.components.options import ComponentOptions
    from ferrule.app.execution.threads import WorkerThreads
    from ferrule.app.signatures.function import FunctionSpec
    from ferrule.kernel.server import Server

__all__ = ["Component", "OptionsT", "SetSettings"]

if TYPE_CHECKING:
    OptionsT = TypeVar("OptionsT", bound="ComponentOptions")
else:
    OptionsT = TypeVar("OptionsT")  # Python would compile a bound in quotes, at each start


class SetSettings(Struct, frozen=True, kw_only=True, eq=False):
    """What the sets of components of one server share.

    Attributes:
        server: the server on which the handlers are registered when there is a component.
        threads: for sync functions.
        page_size: components on a page of a list; ``None`` for all.
        is_private: whether the server authenticates clients; see `ComponentIndex`.
    """

    server: Server[Any]
    threads: WorkerThreads
    page_size: int | None
    is_private: bool


class Component(Generic[OptionsT]):
    """One registered function.

    Args:
        spec: the compiled function.
        name: the component's name.
        options: as registered.

    Attributes:
        spec, name, options: as given.
        tags: the tags of the options.
        number: position in the order of registration, from 1.
        enabled: whether it is enabled in the server whose index holds it.
        is_offered: whether the mounted server shows it; always true for a server's own components.
        guard: decides who may see and use it; ``None``: all clients.
        mount_path: the mounts between the server and the component; ``None`` for a server's own components.
        original: the component of the mounted server that this is a copy of; ``None`` for a server's own components.
    """

    __slots__ = (
        "enabled",
        "guard",
        "is_offered",
        "mount_path",
        "name",
        "number",
        "options",
        "original",
        "spec",
        "tags",
    )

    def __init__(self, spec: FunctionSpec, name: str, options: OptionsT) -> None:
        self.spec = spec
        self.name = name
        self.options = options
        self.tags = frozenset(options.tags)
        self.enabled = True
        self.is_offered = True
        self.guard: Guard | None = None
        self.mount_path: MountPath | None = None
        self.original: Self | None = None
        self.number = 0

    @property
    def description(self) -> str | None:
        """The description given at registration, else the docstring up to its first section."""
        given = self.options.description
        return given if given is not None else self.spec.description()

    def bind(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments as the function gets them: repaired, converted, with defaults; without what is injected.

        Raises:
            InvalidArguments: they do not fit the parameters.
            SignatureError: the function cannot be served.
        """
        return self.spec.finish().bind({} if arguments is None else arguments)

    def copy_for_mount(self, key: str, mount_path: MountPath) -> Self:
        """Return a copy for the index of the server that this component's server is mounted in.

        Args:
            key: the copy's key there: the name of a tool or prompt, the URI of a resource.
            mount_path: the mounts on the way to the component from there.
        """
        made = copy(self)
        made.name = key
        made.mount_path = mount_path
        made.original = self
        return made

    def refresh(self) -> None:
        """Copy the facts that may have changed in the original since this copy was made."""
        if self.original is not None:
            self.guard = self.original.guard  # without the guard, every client could use the copy
