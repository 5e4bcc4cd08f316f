"""`UiPage`: a page as a resource, whose URI changes with its content.

Hosts keep a page by its URI, also after the server has a newer one. The URI therefore has a hash of the page and of
its policy. A host may also ask for an earlier URI: a conversation of yesterday has it in its tool calls. It gets the
current page, because an error would leave an empty frame in that conversation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ferrule.app.execution.context import Context
from ferrule.extensions.apps.errors import PageError
from ferrule.extensions.apps.packaging import Packaged, package
from ferrule.extensions.apps.policy import UiPolicy
from ferrule.protocol.app_pages import PAGE_MIME_TYPE, PAGE_URI_SCHEME, with_tool_prefix
from ferrule.wire.patterns import pattern
from ferrule.wire.types.server_features.resources import ReadResourceRequestParams

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent

__all__ = ["MIME_TYPE", "URI_SCHEME", "FilePage", "PageSource", "TextPage", "UiPage", "slug"]

MIME_TYPE: Final = PAGE_MIME_TYPE
"""The media type of views."""
URI_SCHEME: Final = PAGE_URI_SCHEME

_HASH_CHARS: Final = 12
_MOUNTS = pattern(r"([A-Za-z0-9_-]+/)+")
_NOT_IN_SLUG = pattern(r"[^a-z0-9]+")


class PageSource(Protocol):
    """What a page is made of; `ferrule.extensions.apps.views` has the ready ones."""

    @property
    def name(self) -> str:
        """The name of the page, as its URI shows it."""
        ...

    def packaged(self, policy: UiPolicy, max_bytes: int) -> Packaged:
        """Return the document.

        Raises:
            PageError: it cannot be packaged.
        """
        ...


class TextPage:
    """A document that is given as text.

    Args:
        text: the document.
        name: its name.
    """

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name

    def packaged(self, policy: UiPolicy, max_bytes: int) -> Packaged:
        """See `PageSource`."""
        return package(self.text, policy, label=f"the page of {self.name!r}", max_bytes=max_bytes)


class FilePage:
    """A document in a file, with the files that it refers to.

    Args:
        path: the file; or a folder, whose ``index.html`` is the document.

    Raises:
        PageError: there is no such file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path / "index.html" if path.is_dir() else path
        self.name = path.stem
        if not self.path.is_file():
            raise PageError("there is no such page", file=str(self.path))

    def packaged(self, policy: UiPolicy, max_bytes: int) -> Packaged:
        """See `PageSource`."""
        label = str(self.path)
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise PageError(f"it is not UTF-8: {error}", file=label) from error
        except OSError as error:
            raise PageError(str(error.strerror), file=label) from error
        made = package(text, policy, label=label, folder=self.path.parent.resolve(), max_bytes=max_bytes)
        return Packaged(made.html, (self.path, *made.files))


class UiPage:
    """One page of a server.

    Args:
        source: what it is made of.
        policy: what it may load and use.
        server: the name of the server, for the URI.
        name: the name of the page, which no other page of the server has.
        max_bytes: maximum size.

    Attributes:
        policy: as given.
        tools: the tools that have this page.
        html: the document.
        uri: its URI now.
        versions: template of the URIs of all its versions.
        name: the name of the page.

    Raises:
        PageError: it cannot be packaged.
    """

    def __init__(self, source: PageSource, policy: UiPolicy, server: str, name: str, max_bytes: int) -> None:
        self._source = source
        self._max_bytes = max_bytes
        self._server = slug(server)
        self.policy = policy
        self.tools: list[ToolComponent] = []
        self.name = name
        self._stamps: dict[Path, tuple[int, int]] = {}
        self.html = self.uri = ""
        self.versions = f"{URI_SCHEME}{self._server}/{self.name}.{{version}}.html"
        self._package()

    def _package(self) -> None:
        made = self._source.packaged(self.policy, self._max_bytes)
        self._stamps = {path: _stamp(path) for path in made.files}
        self.html = made.html
        digest = sha256(f"{made.html}\0{json.dumps(self.policy.meta())}".encode()).hexdigest()[:_HASH_CHARS]
        self.uri = f"{URI_SCHEME}{self._server}/{self.name}.{digest}.html"

    def exists_for(self, principal: Any) -> bool:
        """Return whether a principal may see one of the page's tools."""
        return any(tool.guard is None or tool.guard.exists_for(principal) for tool in self.tools)

    def read(self, ctx: Context[Any]) -> str:
        """Return the document; the function of its resource.

        Read through a server that this one is mounted in, the document has the prefix of the tools there
        (``window.mcpPrefix``): the page calls them by their names in this server.
        """
        params: Any = ctx.request.params
        uri = params.uri if isinstance(params, ReadResourceRequestParams) else ""
        outer, found, _ = uri.removeprefix(URI_SCHEME).rpartition(f"{self._server}/{self.name}.")
        if not found or not _MOUNTS.fullmatch(outer):
            return self.html
        return with_tool_prefix(self.html, outer.replace("/", "_"))

    def read_version(self, ctx: Context[Any], version: str) -> str:
        """Return the document, whichever version is requested; the function of the resource of its versions."""
        return self.read(ctx)

    def read_again(self, failed: Callable[[PageError], Any]) -> bool:
        """Package the page again if one of its files has changed; return whether its URI has changed.

        Args:
            failed: called with the reason if it cannot be packaged; the page stays as it was.
        """
        now = {path: _stamp(path) for path in self._stamps}
        if now == self._stamps:
            return False
        self._stamps = now  # a page that cannot be packaged is reported once
        before = self.uri
        try:
            self._package()
        except PageError as error:
            failed(error)
            return False
        return self.uri != before


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def slug(name: str) -> str:
    """Return a name with small letters, digits and ``-`` only."""
    return _NOT_IN_SLUG.sub("-", name.lower()).strip("-") or "view"
