"""`FolderSource`: a folder of skills as resources of a server, which follow the folder while the server runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ferrule.app.components.options import ResourceOptions
from ferrule.app.errors import RegistrationError
from ferrule.extensions.skills.folder import (
    Bounds,
    FoundFile,
    FoundSkill,
    SkillFolderError,
    find_skills,
    is_within,
    read_at_most,
    stamp_of,
    uri_path,
)
from ferrule.extensions.skills.served import ServedFile, ServedSkill, mark
from ferrule.protocol.errors import ResourceNotFound
from ferrule.protocol.skills import SKILL_FILE

if TYPE_CHECKING:
    from ferrule.app.server import MCPServer

__all__ = ["FolderSource", "SourceOptions"]

logger = logging.getLogger("ferrule.skills")


class SourceOptions(Struct, frozen=True, kw_only=True):
    """How the skills of one folder are served.

    Attributes:
        prefix: what is before the paths of the skills in their URIs, such as ``"acme/billing/"``; ``""`` for none.
        is_listed: whether ``skills/list`` shows them.
        resource: the options that each file has as a resource.
    """

    prefix: str
    is_listed: bool
    resource: dict[str, Any]


class FolderSource:
    """One folder of skills of one server.

    Args:
        app: the server.
        folder: the folder.
        bounds: its bounds.
        options: how its skills are served.

    Raises:
        SkillFolderError: something in the folder cannot be served.
        RegistrationError: a URI is taken.
    """

    def __init__(self, app: MCPServer[Any], folder: Path, bounds: Bounds, options: SourceOptions) -> None:
        self._app = app
        self._folder = folder
        self._bounds = bounds
        self._options = options
        self._files: dict[str, FoundFile] = {}
        self._served: dict[str, ServedFile] = {}
        self._found: list[FoundSkill] = []
        self._reported = ""
        self.is_stale = False
        found = self.scan()
        if isinstance(found, SkillFolderError):
            raise found
        self._apply(found, is_start=True)

    def scan(self) -> list[FoundSkill] | SkillFolderError:
        """Return the skills that are in the folder now, or why they cannot be served; may be called in any thread."""
        known = {file.path: file for file in self._files.values()}
        try:
            return find_skills(self._folder, self._bounds, known)
        except OSError as error:
            return SkillFolderError(f"{self._folder} cannot be read: {error.strerror}")
        except SkillFolderError as error:
            return error

    def refresh(self, found: list[FoundSkill] | SkillFolderError | None = None) -> None:
        """Serve what is in the folder now; if that cannot be served, serve nothing of it and log the reason once.

        Args:
            found: the result of a `scan`; ``None`` scans now.
        """
        self.is_stale = False
        found = self.scan() if found is None else found
        if isinstance(found, SkillFolderError):
            self._report("The skills of %s are not served until this is mended: %s", found)
            found = []
        else:
            self._reported = ""
        if found != self._found:
            self._apply(found)

    def _report(self, message: str, error: RegistrationError) -> None:
        if str(error) != self._reported:
            logger.error(message, self._folder, error)
        self._reported = str(error)

    def _apply(self, found: list[FoundSkill], *, is_start: bool = False) -> None:
        """Register the files that are new or have changed, and remove those that are gone."""
        files: dict[str, FoundFile] = {}
        skills: dict[str, FoundSkill] = {}
        for skill in found:
            root = self._uri(skill.where)
            skills[f"{root}/{SKILL_FILE}"] = skill
            files |= {f"{root}/{uri_path(path)}": file for path, file in skill.files.items()}
        index = self._app.resources.fixed
        for uri in self._files.keys() - files.keys():
            if uri in index:
                index.remove(uri, is_mounted=True)  # disabled ones stay so when they come back
            self._served.pop(uri, None)
        for uri, file in files.items():
            known = self._files.get(uri)
            if known is None or known.digest != file.digest:
                try:
                    self._register(uri, file, skills.get(uri))
                except RegistrationError as error:  # another component has taken the URI while the server runs
                    if is_start:
                        raise
                    self._report("A file of %s is not served: %s", error)
            elif uri in skills and uri in self._served:
                self._served[uri].skill = self._skill(skills[uri])
        self._files = files
        self._found = found

    def _uri(self, where: str) -> str:
        return f"skill://{self._options.prefix}{uri_path(where)}"

    def _skill(self, found: FoundSkill) -> ServedSkill:
        return ServedSkill(
            found.frontmatter,
            tuple(uri_path(path) for path in found.files),
            directories=tuple(uri_path(path) for path in found.directories),
            is_listed=self._options.is_listed,
        )

    def _register(self, uri: str, file: FoundFile, found: FoundSkill | None) -> None:
        resources, index = self._app.resources, self._app.resources.fixed
        earlier = index.get(uri) if uri in self._files else None
        if uri in self._files and earlier is None:
            return  # the author has removed it
        served = ServedFile(file.digest, file.size)
        served.skill = None if found is None else self._skill(found)
        read = self._reader(uri, file.path)
        mark(read, served)
        if earlier is not None:
            index.remove(uri, is_mounted=True)
        name = os.path.basename(file.path) if found is None else found.frontmatter["name"]
        description = None if found is None else found.frontmatter["description"]
        own = {"name": name, "description": description, "mime_type": _media_type(file), "size": file.size}
        resources.add(uri, read, ResourceOptions(**cast("dict[str, Any]", own), **self._options.resource))
        self._served[uri] = served
        if earlier is not None:
            if not earlier.enabled:
                index.set_enabled(uri, False)
            self._app.notify_resource_updated(uri)

    def _reader(self, uri: str, path: str) -> Callable[[], bytes]:
        base, name = os.path.realpath(self._folder), os.path.basename(path)

        def read() -> bytes:
            try:
                if not is_within(os.path.realpath(path), base):
                    raise ResourceNotFound(name)
                data = read_at_most(path, self._bounds.max_bytes)
                described = self._files.get(uri)
                is_same = described is not None and stamp_of(os.stat(path)) == described.stamp
            except OSError as error:
                self.is_stale = True
                raise ResourceNotFound(name) from error
            if data is None or not is_same:
                self.is_stale = True  # the next list or entry describes the file as it is now
            if data is None:
                raise ResourceNotFound(name)
            return data

        return read


def _media_type(file: FoundFile) -> str:
    from ferrule.app.results.content import media_type_of

    if file.path.lower().endswith(".md") and file.is_text:
        return "text/markdown"
    found = media_type_of(os.path.basename(file.path))
    return found or ("text/plain" if file.is_text else "application/octet-stream")
