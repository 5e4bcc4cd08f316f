"""`Skills`: the methods ``skills/list``, ``skills/get`` and ``resources/directory/read`` of a server.

The files of a skill are resources of the server, so that clients without the extension can read them, and the rules for
resources hold: guards, disabled components, mounts, notifications. This module answers with what those resources are.

Source: SEP-2640 "Skills".
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import wraps
from inspect import cleandoc, iscoroutinefunction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

import anyio
from anyio.to_thread import run_sync

from ferrule.app.components.options import ResourceOptions
from ferrule.app.components.pagination import paginate
from ferrule.app.errors import RegistrationError
from ferrule.extensions.base import Extension, ExtensionMethod
from ferrule.extensions.skills.folder import Bounds, check_frontmatter, uri_path
from ferrule.extensions.skills.served import ServedFile, ServedSkill, children_of, entry_of, mark, skill_of, skills_for
from ferrule.extensions.skills.source import FolderSource, SourceOptions
from ferrule.protocol.capabilities import SKILLS_EXTENSION
from ferrule.protocol.errors import InvalidParams
from ferrule.protocol.skills import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SKILL_FILE,
    read_frontmatter,
    write_frontmatter,
)
from ferrule.transports.background import Background
from ferrule.wire.types.base import PaginatedRequestParams
from ferrule.wire.types.server_features.resources import Resource
from ferrule.wire.types.skills import (
    GetSkillRequestParams,
    GetSkillResult,
    ListSkillsResult,
    ReadDirectoryRequestParams,
    ReadDirectoryResult,
)

if TYPE_CHECKING:
    from ferrule.app.components.index import ComponentIndex
    from ferrule.app.components.resources import ResourceComponent
    from ferrule.app.server import MCPServer
    from ferrule.kernel.server import Server, ServerRequestContext

__all__ = ["Skills"]

PAGE_SIZE: Final = 100
"""Entries on a page of ``skills/list`` or ``resources/directory/read`` where the server sets no ``page_size``."""


_SHARE: Final = 20
"""A check in the background is followed by a pause of so many times its duration, so that it takes 5 % at most."""


class Skills(Extension):
    """The skills extension; ``MCPServer(extensions=[Skills(…)])``, or implied by `MCPServer.add_skills`.

    While the server runs, folders are checked for changes in the background every ``watch_s``, less often if a check
    takes long. Where nothing runs in the background, as in a WSGI host, they are checked before a list or an entry, at
    most once in ``check_every_s``. A read of a changed file makes the next entry current at once. Clients that listen
    learn of changes by ``notifications/resources/list_changed`` and ``notifications/resources/updated``.

    Attributes:
        sources: the folders.

    Args:
        max_files, max_bytes: bounds of one skill; by default those that every host takes.
        max_skills: maximum number of skills of one folder.
        check_every_s: seconds in which a folder is checked at most once by requests.
        watch_s: seconds between two checks in the background; ``None``: requests check.
        clock: returns seconds, for ``check_every_s``.
    """

    identifier: ClassVar[str] = SKILLS_EXTENSION
    in_handshake: ClassVar[bool] = True

    def __init__(
        self,
        *,
        max_files: int = MAX_SKILL_FILES,
        max_bytes: int = MAX_SKILL_BYTES,
        max_skills: int = 1000,
        check_every_s: float = 1.0,
        watch_s: float | None = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bounds = Bounds(max_files=max_files, max_bytes=max_bytes, max_skills=max_skills)
        self._check_every_s = check_every_s
        self._watch_s = watch_s
        self._clock = clock
        self._checked_at = float("-inf")
        self._watches = 0
        self.sources: list[FolderSource] = []
        self._app: MCPServer[Any] | None = None

    # -- what it serves -------------------------------------------------------------------------------------------

    def add_folder(
        self,
        folder: str | PathLike[str],
        *,
        prefix: str = "",
        listed: bool = True,
        **options: Any,
    ) -> None:
        """Serve the skills of a folder; see `MCPServer.add_skills`."""
        app = self.app
        options["listed"] = listed
        source = SourceOptions(prefix=_checked_prefix(prefix), is_listed=listed, resource=options)
        self.sources.append(FolderSource(app, Path(folder), self._bounds, source))
        self._checked_at = self._clock()

    def add_function(
        self,
        function: Callable[..., Any],
        *,
        description: str | None = None,
        name: str | None = None,
        prefix: str = "",
        listed: bool = True,
        frontmatter: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Serve a skill whose instructions a function returns; see `MCPServer.skill`."""
        name = name or function.__name__.replace("_", "-")
        text = description if description is not None else cleandoc(function.__doc__ or "").partition("\n\n")[0]
        fields = {**(frontmatter or {}), "name": name, "description": " ".join(text.split())}
        check_frontmatter(fields, name, f"The skill {name!r}")
        head = write_frontmatter(fields)
        if read_frontmatter(head) != fields:
            raise RegistrationError(f"The frontmatter of the skill {name!r} has a value that JSON does not have")
        read = _with_frontmatter(function, head)
        file = ServedFile()
        file.skill = ServedSkill(fields, None, is_listed=listed)
        mark(read, file)
        uri = f"skill://{_checked_prefix(prefix)}{name}/{SKILL_FILE}"
        options.update(name=name, description=fields["description"], mime_type="text/markdown", listed=listed)
        self.app.resources.add(uri, read, ResourceOptions(**options))

    @property
    def app(self) -> MCPServer[Any]:
        """The server that has this extension.

        Raises:
            RuntimeError: it has not been added to one.
        """
        if self._app is None:
            raise RuntimeError("Add Skills to a server first: MCPServer(extensions=[Skills()])")
        return self._app

    # -- the extension --------------------------------------------------------------------------------------------

    def settings(self) -> Mapping[str, Any]:
        """See `Extension`."""
        return {"directoryRead": True}

    def methods(self) -> Mapping[str, ExtensionMethod]:
        """See `Extension`. Only servers declare this extension, so that clients need not."""
        return {
            "skills/list": ExtensionMethod(self._list, PaginatedRequestParams, needs_opt_in=False, cacheable=True),
            "skills/get": ExtensionMethod(self._get, GetSkillRequestParams, needs_opt_in=False, cacheable=True),
            "resources/directory/read": ExtensionMethod(
                self._read_directory, ReadDirectoryRequestParams, needs_opt_in=False
            ),
        }

    def attach(self, app: MCPServer[Any]) -> None:
        """See `Extension`."""
        super().attach(app)
        self._app = app
        app.resources.serve()  # a server with skills declares resources, also before it has any
        app.resources.fixed.before_read.append(self.refresh)

    def mounted_in(self, parent: MCPServer[Any]) -> None:
        """See `Extension`: the parent serves the skills too."""
        if self.identifier not in parent.extensions:
            parent.add_extension(Skills(watch_s=self._watch_s))

    def running(self, server: Server[Any], state: Any) -> AbstractAsyncContextManager[Any]:
        """See `Extension`."""
        return nullcontext() if self._watch_s is None else self._watched(self._watch_s)

    @asynccontextmanager
    async def _watched(self, every_s: float) -> AsyncGenerator[None]:
        background = Background()
        background.start(self._watch(every_s), "ferrule-skills")
        self._watches += 1
        try:
            yield
        finally:
            self._watches -= 1
            await background.aclose()

    async def _watch(self, every_s: float) -> None:
        pause_s = every_s
        while True:
            await anyio.sleep(pause_s)
            started = time.monotonic()
            for source in _sources_of(self.app):
                source.refresh(await run_sync(source.scan))
            pause_s = max(every_s, _SHARE * (time.monotonic() - started))

    def refresh(self) -> None:
        """Serve what the folders have now; does nothing if they were checked a moment ago, or are in the background."""
        now = self._clock()
        is_due = not self._watches and now - self._checked_at >= self._check_every_s
        if is_due:
            self._checked_at = now
        for source in self.sources:
            if is_due or source.is_stale:
                source.refresh()

    # -- requests -------------------------------------------------------------------------------------------------

    @property
    def _index(self) -> ComponentIndex[ResourceComponent]:
        return self.app.resources.fixed

    def _page_size(self) -> int:
        return self.app.resources.page_size or PAGE_SIZE

    def _scope(self) -> Literal["private"] | None:
        return "private" if self._index.is_private or self._index.is_guarded else None

    async def _list(self, ctx: ServerRequestContext[Any]) -> ListSkillsResult:
        self._index.refresh()
        live = self._index.live
        page = paginate(skills_for(live, ctx), ctx.params.cursor, self._page_size())
        return ListSkillsResult(
            [entry_of(live, component) for component in page.members],
            next_cursor=page.next_cursor,
            cache_scope=self._scope(),
        )

    async def _get(self, ctx: ServerRequestContext[Any]) -> GetSkillResult:
        self._index.refresh()
        found = self.app.resources.find(ctx.params.uri, lambda guard: guard.is_visible(ctx))
        if found is None or skill_of(found[0]) is None:
            raise InvalidParams(f"No skill is served at {_shown(ctx.params.uri)}")
        return GetSkillResult(entry_of(self._index.live, found[0]), cache_scope=self._scope())

    async def _read_directory(self, ctx: ServerRequestContext[Any]) -> ReadDirectoryResult:
        self._index.refresh()
        children = children_of(self._index.live, ctx, ctx.params.uri)
        if children is None:
            raise InvalidParams(f"{_shown(ctx.params.uri)} is not a directory")
        numbered = [_Child(number, child) for number, child in enumerate(children, 1)]
        page = paginate(numbered, ctx.params.cursor, self._page_size())
        return ReadDirectoryResult([child.resource for child in page.members], next_cursor=page.next_cursor)


def _sources_of(app: MCPServer[Any]) -> list[FolderSource]:
    """Return the folders of a server and of those mounted in it, whose extensions do not run."""
    own = app.extensions.get(SKILLS_EXTENSION)
    found = list(own.sources) if isinstance(own, Skills) else []
    for mount in app.mounts:
        found += _sources_of(cast("MCPServer[Any]", mount.server))
    return found


class _Child:
    """A child of a directory, with its position from 1."""

    def __init__(self, number: int, resource: Resource) -> None:
        self.number = number
        self.resource = resource


def _with_frontmatter(function: Callable[..., Any], head: str) -> Callable[..., Any]:
    """Return a function with the same parameters that returns a ``SKILL.md``."""
    if iscoroutinefunction(function):

        @wraps(function)
        async def read_async(*arguments: Any, **more: Any) -> str:
            return f"{head}\n{await function(*arguments, **more)}"

        return read_async

    @wraps(function)
    def read(*arguments: Any, **more: Any) -> str:
        return f"{head}\n{function(*arguments, **more)}"

    return read


def _checked_prefix(prefix: str) -> str:
    """Return the beginning of a URI's path: the prefix and a slash, or nothing without a prefix."""
    if not prefix:
        return ""
    if any(segment in ("", ".", "..") for segment in prefix.split("/")):
        raise RegistrationError(f"The prefix {prefix!r} is not a path of names with a slash between them")
    return f"{uri_path(prefix)}/"


def _shown(uri: str) -> str:
    return uri if len(uri) <= 200 else uri[:200] + "…"
