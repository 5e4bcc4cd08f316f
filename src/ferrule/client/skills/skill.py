"""Skills on the client's side: entries, verified reads of their files, and the user's approval (SEP-2640).

A `ServerSkill` holds the entry from which it was made. A file is read only if the entry lists it, and used only if its
size and digest are those of the entry; the frontmatter of ``SKILL.md`` must be that of the entry. Nothing is read ahead
of need. Digests come from the same server as the files: they show that both belong together, and not whom to trust.

A skill is identified by the client's name for its server and its URI, never by its name alone.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote

from ferrule.client.errors import SkillVerificationFailed
from ferrule.client.skills.entries import bytes_of, excess_of, fault_of, files_of, fingerprint_of
from ferrule.protocol.skills import MAX_SKILL_BYTES, SKILL_FILE, FrontmatterError, differing_field, root_of
from ferrule.wire.types import ReadResourceResult
from ferrule.wire.types.skills import Skill, SkillResource

if TYPE_CHECKING:
    from ferrule.client.skills.calls import SkillCalls

__all__ = ["ServerSkill"]


class ServerSkill:
    """One skill of one server, as the server described it; made by `Client.list_skills` and `Client.get_skill`.

    Attributes:
        server: the client's name for the server, to be shown with the skill.
        entry: the entry from which it was made.
        uri: the URI of its ``SKILL.md``.
        frontmatter: its fields as JSON. They come from the server: ``allowed-tools`` and the like grant nothing.
        declined: why it cannot be loaded, if it exceeds the limits of the specification; ``None`` if it does not.
        is_changed: whether the user had approved the skill with other files.
    """

    def __init__(self, calls: SkillCalls, entry: Skill, server: str) -> None:
        self.server = server
        self.is_changed = False
        self._calls = calls
        self._approved = False
        self._retrieved = 0
        self._failure: tuple[str, str] | None = None
        self._hold(entry)

    def _hold(self, entry: Skill) -> None:
        self.entry = entry
        self.uri = entry.uri
        self.frontmatter = entry.frontmatter
        self._root = cast("str", root_of(entry.uri))
        self._files = files_of(entry, self._root)
        self.declined = None if self._files is None else excess_of(self._files.values())
        self.fingerprint: str | None = None if self._files is None else fingerprint_of(self._files.values())

    def __repr__(self) -> str:
        return f"ServerSkill({self.server!r}, {self.uri!r})"

    @property
    def name(self) -> str:
        """Its name: a label for people, not unique even within one server."""
        return str(self.frontmatter["name"])

    @property
    def description(self) -> str:
        """What it is for."""
        return str(self.frontmatter["description"])

    @property
    def identity(self) -> tuple[str, str]:
        """The pair that identifies it: the client's name for the server, and the URI."""
        return self.server, self.uri

    @property
    def label(self) -> str:
        """A name for people that is unique among all servers: that of the server and the path of the skill."""
        return f"{self.server}/{unquote(self._root.partition('://')[2])}"

    @property
    def is_dynamic(self) -> bool:
        """Whether its files are made at each read, so that they cannot be verified."""
        return self._files is None

    @property
    def paths(self) -> list[str]:
        """The paths of its files, without ``SKILL.md``; empty for a dynamic skill."""
        return [path for path in self._files or {} if path != SKILL_FILE]

    # -- reading ----------------------------------------------------------------------------------------------------

    async def load(self) -> str:
        """Return the text of ``SKILL.md`` after the user's approval and its verification.

        Raises:
            SkillNotApproved: ``approve_skill`` did not approve it.
            SkillVerificationFailed: it is not as the entry describes it, or exceeds the limits; see `refresh`.
            RemoteError: the server does not serve it.
        """
        self._check_usable()
        await self._approve(again=self.is_dynamic)
        data = await self._read(self.uri, None if self._files is None else self._files[SKILL_FILE])
        try:
            text = data.decode()
            field = differing_field(self.frontmatter, text)
        except UnicodeDecodeError:
            raise self._failed(self.uri, "is not UTF-8") from None
        except FrontmatterError as error:
            raise self._failed(self.uri, str(error)) from error
        if field is not None:
            raise self._failed(self.uri, f"has another {field!r} in its frontmatter than the entry")
        return text

    async def read(self, path: str) -> bytes:
        """Return the bytes of one of its files after the user's approval and verification.

        Args:
            path: the path from the skill's directory, as ``SKILL.md`` refers to it, or the URI.

        Raises:
            SkillNotApproved: ``approve_skill`` did not approve the skill.
            SkillVerificationFailed: the entry does not list the file, or the file is not as described; see `refresh`.
            RemoteError: the server does not serve it.
        """
        self._check_usable()
        uri, file = self._find(path)
        if uri == self.uri:
            return (await self.load()).encode()
        await self._approve(again=False)
        return await self._read(uri, file)

    async def read_text(self, path: str) -> str:
        """Return one of its files as text; see `read`.

        Raises:
            UnicodeDecodeError: it is not UTF-8.
        """
        return (await self.read(path)).decode()

    def tagged(self, text: str) -> str:
        """Return a text of the skill with its origin, for the context of a model.

        A model must see that a skill comes from a server, and from which one.
        """
        origin = f'server="{_quoted(self.server)}" uri="{_quoted(self.uri)}"'
        end = sha256(text.encode("utf-8", "replace")).hexdigest()[:16]  # the text cannot contain its own digest
        return f'<skill {origin} end="{end}">\n{text}\n</skill {end}>'

    async def refresh(self) -> None:
        """Read the entry again, so that a skill that has changed can be used; the user is asked again if it has.

        Raises:
            RemoteError: the server does not serve the skill any more.
            BadServerResponse: its entry is malformed.
        """
        entry = await self._calls.entry(self.uri, is_fresh=True)
        self._failure = None
        self._approved = False
        self._retrieved = 0
        self._hold(entry)
        self._calls.note(self)

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        if self._failure is not None:
            raise SkillVerificationFailed(self.uri, *self._failure)
        if self.declined is not None:
            raise SkillVerificationFailed(self.uri, self.uri, self.declined)

    async def _approve(self, *, again: bool) -> None:
        if again or not self._approved:
            await self._calls.approve(self)
            self._approved = True

    def _find(self, path: str) -> tuple[str, SkillResource | None]:
        """Return the URI of a file, and what the entry says of it; ``None`` for a dynamic skill.

        Raises:
            SkillVerificationFailed: it is not a file of the skill.
        """
        inside = path
        if "://" in path:
            if not path.startswith(f"{self._root}/"):
                raise SkillVerificationFailed(self.uri, path[:200], "is not a file of this skill")
            inside = unquote(path[len(self._root) + 1 :])
        segments = [segment for segment in inside.split("/") if segment not in ("", ".")]
        if inside.startswith("/") or ".." in segments or not segments:
            raise SkillVerificationFailed(self.uri, path[:200], "is not a file of this skill")
        inside = "/".join(segments)
        if self._files is None:
            return f"{self._root}/{quote(inside)}", None
        found = self._files.get(inside)
        if found is None:
            raise SkillVerificationFailed(self.uri, path[:200], "is not among the files of its entry")
        return found.uri, found

    async def _read(self, uri: str, file: SkillResource | None) -> bytes:
        reader, params = self._calls.reader, {"uri": uri}
        if file is not None:
            # What is kept may be older than the entry; then it is fetched again.
            kept = await reader.kept("resources/read", params)
            if kept is not None:
                data = bytes_of(reader.typed(kept, ReadResourceResult, "resources/read"), uri)
                if data is not None and fault_of(data, file) is None:
                    return data
        raw = await reader.fetched("resources/read", params)
        data = bytes_of(reader.typed(raw, ReadResourceResult, "resources/read"), uri)
        if data is None:
            raise self._failed(uri, "was answered with something else")
        self._retrieved += len(data)
        fault = fault_of(data, file) if file is not None else self._excess_of_dynamic()
        if fault is not None:
            raise self._failed(uri, fault)
        return data

    def _excess_of_dynamic(self) -> str | None:
        is_over = self._retrieved > MAX_SKILL_BYTES
        return f"brings what was read of it to more than {MAX_SKILL_BYTES:,} bytes" if is_over else None

    def _failed(self, uri: str, why: str) -> SkillVerificationFailed:
        """Return the error of a failed verification; the skill is not usable from now on."""
        self._failure = uri, why
        return SkillVerificationFailed(self.uri, uri, why)


def _quoted(text: str) -> str:
    from html import escape

    return escape(" ".join(text.split()))
