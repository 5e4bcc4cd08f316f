"""`ServedFile` and `ServedSkill`: the facts of skills, kept with the resources that serve their files.

Each file of a skill is a resource whose function has its `ServedFile`. A copy of a resource that mounting makes has the
same function, so that skills of mounted servers are found in the same way, under the URIs that they have here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from msgspec.structs import replace

from ferrule.protocol.skills import DIRECTORY_TYPE, DYNAMIC, SKILL_FILE
from ferrule.wire.types.server_features.resources import Resource
from ferrule.wire.types.skills import Skill, SkillResource

if TYPE_CHECKING:
    from ferrule.app.components.resources import ResourceComponent
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["ServedFile", "ServedSkill", "children_of", "entry_of", "mark", "skills_for"]

_MARK: Final = "__ferrule_skill_file__"


class ServedFile:
    """One file of one or more skills.

    Attributes:
        digest, size: digest and number of its bytes; ``""`` and 0 for a file that is made at each read.
        skill: the skill whose ``SKILL.md`` this is; ``None`` for another file.
    """

    __slots__ = ("digest", "size", "skill")

    def __init__(self, digest: str = "", size: int = 0) -> None:
        self.digest = digest
        self.size = size
        self.skill: ServedSkill | None = None


class ServedSkill:
    """One skill.

    Attributes:
        frontmatter: that of its ``SKILL.md``.
        paths: the paths of its files from its directory, as in their URIs; ``None`` for a skill that is made at each
            read.
        directories: the paths of its directories, as in URIs.
        is_listed: whether ``skills/list`` shows it.
    """

    __slots__ = ("directories", "frontmatter", "is_listed", "paths")

    def __init__(
        self,
        frontmatter: dict[str, Any],
        paths: tuple[str, ...] | None,
        *,
        directories: tuple[str, ...] = (),
        is_listed: bool = True,
    ) -> None:
        self.frontmatter = frontmatter
        self.paths = paths
        self.directories = directories
        self.is_listed = is_listed


def mark(function: Callable[..., Any], file: ServedFile) -> None:
    """Keep the facts of a file with the function that reads it."""
    setattr(function, _MARK, file)


def file_of(component: ResourceComponent) -> ServedFile | None:
    """Return the facts of a resource that is a file of a skill; ``None`` for another resource."""
    return cast("ServedFile | None", getattr(component.spec.function, _MARK, None))


def skill_of(component: ResourceComponent) -> ServedSkill | None:
    """Return the skill whose ``SKILL.md`` a resource is; ``None`` for another resource."""
    file = file_of(component)
    return None if file is None else file.skill


def _is_visible(component: ResourceComponent, ctx: ServerRequestContext[Any]) -> bool:
    return component.guard is None or component.guard.is_visible(ctx)


def skills_for(live: Mapping[str, ResourceComponent], ctx: ServerRequestContext[Any]) -> list[ResourceComponent]:
    """Return the resources that are the ``SKILL.md`` of listed skills which the sender of a request may see.

    Args:
        live: the enabled resources by URI.
        ctx: the request.
    """
    found: list[ResourceComponent] = []
    for component in live.values():
        skill = skill_of(component)
        if skill is not None and skill.is_listed and _is_visible(component, ctx):
            found.append(component)
    return found


def entry_of(live: Mapping[str, ResourceComponent], component: ResourceComponent) -> Skill:
    """Return the entry of the skill whose ``SKILL.md`` a resource is, with its files that are served.

    Args:
        live: the enabled resources by URI.
        component: the resource.
    """
    skill = cast("ServedSkill", skill_of(component))
    if skill.paths is None:
        return Skill(component.uri, skill.frontmatter, DYNAMIC)
    root = component.uri.removesuffix(SKILL_FILE)
    resources: list[SkillResource] = []
    for path in skill.paths:
        served = live.get(root + path)
        file = None if served is None else file_of(served)
        if file is not None:  # the author may have disabled one
            resources.append(SkillResource(root + path, file.digest, file.size))
    return Skill(component.uri, skill.frontmatter, resources)


def children_of(
    live: Mapping[str, ResourceComponent], ctx: ServerRequestContext[Any], uri: str
) -> list[Resource] | None:
    """Return what is directly in a directory of skills, by name; ``None`` if there is no such directory.

    Args:
        live: the enabled resources by URI.
        ctx: the request; what its sender may not see is left out.
        uri: the directory, without a slash at its end.
    """
    prefix = f"{uri}/"
    if not uri.partition("://")[2]:
        return None
    found: dict[str, Resource] = {}
    is_directory = False
    for component in live.values():
        file = file_of(component)
        if file is None or not _is_visible(component, ctx):
            continue
        if component.uri.startswith(prefix):
            is_directory = True
            name, slash, _ = component.uri[len(prefix) :].partition("/")
            found[name] = _directory(prefix + name, name) if slash else _child(component, name)
        for directory in _directories(component, file):
            if directory == uri:
                is_directory = True
            elif directory.startswith(prefix):
                name = directory[len(prefix) :].partition("/")[0]
                found.setdefault(name, _directory(prefix + name, name))
    return [found[name] for name in sorted(found)] if is_directory else None


def _directories(component: ResourceComponent, file: ServedFile) -> Iterator[str]:
    if file.skill is not None:
        root = component.uri.removesuffix(SKILL_FILE)
        for path in file.skill.directories:
            yield root + path


def _child(component: ResourceComponent, name: str) -> Resource:
    return replace(component.resource(), name=unquote(name))


def _directory(uri: str, name: str) -> Resource:
    return Resource(uri, unquote(name), mime_type=DIRECTORY_TYPE)
