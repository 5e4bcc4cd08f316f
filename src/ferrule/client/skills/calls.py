"""The requests for skills of one client, and the approvals of its user (SEP-2640)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.client.errors import BadServerResponse, ExtensionNotOffered, SkillNotApproved
from ferrule.client.skills.entries import checked_entry
from ferrule.client.skills.skill import ServerSkill
from ferrule.protocol.capabilities import SKILLS_EXTENSION, extension_settings
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError
from ferrule.wire.types import ListResourcesResult, PaginatedResult, Resource
from ferrule.wire.types.skills import GetSkillResult, Skill
from ferrule.wire.uri_template import normal_uri

if TYPE_CHECKING:
    from ferrule.client.calls.lists import ResultReader
    from ferrule.client.calls.request_sender import RequestSender
    from ferrule.client.settings import Handlers

__all__ = ["OUTDATES", "SkillCalls"]

logger = logging.getLogger("ferrule.client")

_METHODS: Final = ("skills/list", "skills/get")

OUTDATES: Final[Mapping[str, Iterable[str]]] = {
    "notifications/resources/list_changed": _METHODS,
    "notifications/resources/updated": _METHODS,
}
"""Notification → the methods of skills whose cached results it makes outdated.

The files of skills are resources, and a skill has no notification of its own."""


class SkillCalls:
    """The requests for skills of one client, and the approvals of its user.

    Args:
        requests: sends requests.
        reader: reads results.
        handlers: the functions of the program.
        label: returns the client's name for the server.

    Attributes:
        reader: as given.
        approved: URI → fingerprint of the files with which the user has approved a skill.
    """

    def __init__(
        self, requests: RequestSender, reader: ResultReader, handlers: Handlers, label: Callable[[], str]
    ) -> None:
        self.reader = reader
        self.approved: dict[str, str] = {}
        self._revoked: set[str] = set()
        self._requests = requests
        self._approve = handlers.approve_skill
        self._label = label
        self._turn = anyio.Lock()

    def settings(self) -> Mapping[str, Any]:
        """Return the settings with which the server declares skills.

        Raises:
            ExtensionNotOffered: it does not.
        """
        found = extension_settings(self._requests.sessions.required().capabilities, SKILLS_EXTENSION)
        if found is None:
            raise ExtensionNotOffered(SKILLS_EXTENSION)
        return found

    async def all(self) -> list[ServerSkill]:
        """Return every listed skill, each URI once; see `ferrule.Client.list_skills`."""
        self.settings()
        items = await self.reader.all("skills/list", _SkillsPage, lambda page: page.skills)
        found: dict[str, ServerSkill] = {}
        for item in items:
            try:
                entry = checked_entry(convert(item, Skill))
            except (ConvertError, BadServerResponse) as error:
                logger.warning("A skill of %s is left out: %s", self._label(), str(error)[:500])
                continue
            if entry.uri not in found:
                found[entry.uri] = self.note(ServerSkill(self, entry, self._label()))
        return list(found.values())

    async def get(self, uri: str) -> ServerSkill:
        """Return one skill; see `ferrule.Client.get_skill`."""
        return self.note(ServerSkill(self, await self.entry(uri), self._label()))

    async def entry(self, uri: str, *, is_fresh: bool = False) -> Skill:
        """Return the entry of one skill; ``is_fresh``: not from the cache, whose results are forgotten."""
        self.settings()
        params = {"uri": str(uri)}
        if is_fresh:
            await self.reader.forget(*_METHODS)
            raw = await self.reader.fetched("skills/get", params)
        else:
            raw = await self.reader.cached("skills/get", params)
        entry = checked_entry(self.reader.typed(raw, GetSkillResult, "skills/get").skill)
        if entry.uri != uri and normal_uri(entry.uri) != normal_uri(str(uri)):
            raise BadServerResponse(f"The server answered skills/get for {str(uri)[:200]} with another skill")
        return entry

    async def read_directory(self, uri: str) -> list[Resource]:
        """Return the children of a directory; see `ferrule.Client.read_directory`."""
        if self.settings().get("directoryRead") is not True:
            raise ExtensionNotOffered(f"{SKILLS_EXTENSION} with directoryRead")
        found: list[Resource] = await self.reader.all(
            "resources/directory/read", ListResourcesResult, lambda page: page.resources, {"uri": str(uri)}
        )
        return found

    # -- approvals --------------------------------------------------------------------------------------------------

    def note(self, skill: ServerSkill) -> ServerSkill:
        """Revoke the approval of a skill whose files have changed, and return the skill."""
        approved = self.approved.get(skill.uri)
        if approved is not None and approved != skill.fingerprint:
            del self.approved[skill.uri]
            self._revoked.add(skill.uri)
        skill.is_changed = skill.uri in self._revoked
        return skill

    async def approve(self, skill: ServerSkill) -> None:
        """Ask the user for a skill, unless the same files were approved; one question at a time.

        Raises:
            SkillNotApproved: the answer is not true.
        """
        if self._approve is None:
            return
        async with self._turn:
            if skill.fingerprint is not None and self.approved.get(skill.uri) == skill.fingerprint:
                return
            answer = self._approve(skill)
            if isawaitable(answer):
                answer = await answer
            if answer is not True:
                raise SkillNotApproved(skill.uri)
            if skill.fingerprint is not None:
                self.approved[skill.uri] = skill.fingerprint
            self._revoked.discard(skill.uri)
            skill.is_changed = False


class _SkillsPage(PaginatedResult):
    """A page of ``skills/list`` whose entries are read one by one, so that a malformed one costs no other."""

    skills: list[Any]
