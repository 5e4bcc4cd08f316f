"""Skills: folders with instructions for agents, whose files are resources (SEP-2640, base revision 2026-07-28)."""

from typing import Any, Literal

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.base import CacheableResult, PaginatedRequestParams, PaginatedResult, RequestParams, Result
from ferrule.wire.types.server_features.resources import Resource

__all__ = [
    "GetSkillRequestParams",
    "GetSkillResult",
    "ListSkillsResult",
    "ReadDirectoryRequestParams",
    "ReadDirectoryResult",
    "Skill",
    "SkillResource",
]


class SkillResource(WireStruct):
    """A file of a skill: its URI, ``sha256:`` and 64 hexadecimal digits of its bytes, and how many bytes it has."""

    uri: str
    digest: str
    size: int


class Skill(WireStruct):
    """The entry of one skill.

    ``uri`` is that of its ``SKILL.md``, ``frontmatter`` the YAML at the beginning of that file as JSON. ``resources``
    are all its files, ``SKILL.md`` too, or ``"dynamic"`` where they are made at each read.
    """

    uri: str
    frontmatter: dict[str, Any]
    resources: list[SkillResource] | Literal["dynamic"]


class ListSkillsResult(PaginatedResult):
    """One page of ``skills/list``."""

    skills: list[Skill]


class GetSkillRequestParams(RequestParams):
    """Params of ``skills/get``: the URI of a ``SKILL.md``."""

    uri: str


class GetSkillResult(CacheableResult):
    """The result of ``skills/get``."""

    skill: Skill


class ReadDirectoryRequestParams(PaginatedRequestParams):
    """Params of ``resources/directory/read``: the URI of a directory, without a slash at its end."""

    uri: str


class ReadDirectoryResult(Result):
    """One page of ``resources/directory/read``: the direct children, directories among them as ``inode/directory``."""

    resources: list[Resource]
    next_cursor: str | None = None
