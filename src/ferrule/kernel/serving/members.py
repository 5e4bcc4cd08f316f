"""What middleware can know of a server: its members, which of them a request may see, and what was decided about it.

A member is a tool, a resource, a resource template or a prompt. Middleware that hides members from a sender sets
`member_filter` while it serves a request; the code that looks at all members within a request (a search of tools, the
suggestion for an unknown name, a subscription) asks it. Middleware that records decisions sets `current_verdict`.

Imported only by what uses it: a server without such middleware never loads this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal, Protocol, TypeAlias

from ferrule.wire.struct import Value

__all__ = [
    "MAX_LISTENED_TASKS",
    "HidesMembers",
    "MemberDirectory",
    "MemberFilter",
    "MemberKind",
    "RequestVerdict",
    "ServedMember",
    "TaskDirectory",
    "current_verdict",
    "member_filter",
]

MAX_LISTENED_TASKS: Final = 256
"""Maximum number of tasks that one ``subscriptions/listen`` names."""

MemberKind: TypeAlias = Literal["tool", "resource", "resource_template", "prompt"]
"""The kinds of members."""


class ServedMember(Value, frozen=True):
    """One member of a server.

    Attributes:
        kind: its kind.
        name: the name of a tool or prompt, the URI of a resource, the text of a template; as clients see it.
        annotations: the annotations of its definition; empty without.
        tags: its tags, where the server is in this process.
        template: for a resource that a template serves, the text of the template; ``None`` otherwise.
        definition: returns its definition as JSON; ``None`` if it is not known.
        source: what it is made of: the definition is the same as long as this is the same object. ``None``: unknown.
    """

    kind: MemberKind
    name: str
    annotations: Mapping[str, Any]
    tags: frozenset[str] = frozenset()
    template: str | None = None
    definition: Callable[[], Mapping[str, Any] | None] = lambda: None
    source: Any = None


class MemberDirectory(Protocol):
    """Finds the members of one server; an attachment of the server."""

    async def find(self, ctx: Any, kind: MemberKind, name: str, /) -> ServedMember | None:
        """Return a member; ``None`` if the sender of the request could not find it in any list.

        Args:
            ctx: the request, a `ServerRequestContext`, whose module uses this one.
            kind: ``"resource"`` also for a URI that a template serves.
            name: its name or URI as clients see it.
        """
        ...

    def is_search(self, name: str, /) -> bool:
        """Return whether a tool is one of the three that stand in place of a long list."""
        ...


class TaskDirectory(Protocol):
    """Finds the tools of tasks; an attachment of a server that runs tasks."""

    async def tool_of(self, task_id: str, /) -> str | None:
        """Return the tool whose call became a task; ``None`` for an unknown task."""
        ...


class MemberFilter(Protocol):
    """Which members the sender of the request that is being served may see."""

    async def keeps(self, kind: MemberKind, name: str, annotations: Mapping[str, Any], tags: frozenset[str], /) -> bool:
        """Return whether it may see a member."""
        ...

    def updates(
        self, before: Callable[[str], bool] | None, is_subscribed: Callable[[str], bool], /
    ) -> Callable[[str], bool]:
        """Return ``(uri) -> bool``: whether it may receive updates of a resource.

        Args:
            before: the rule that holds already; ``None`` for none.
            is_subscribed: whether the request names the URI itself, and was allowed; otherwise it names one above.
        """
        ...


class HidesMembers(ABC):
    """Base of middleware that sets `member_filter`."""

    __slots__ = ()

    @property
    @abstractmethod
    def hides_members(self) -> bool:
        """Whether it hides members from any sender."""


member_filter: Final[ContextVar[MemberFilter | None]] = ContextVar("ferrule_member_filter", default=None)
"""The filter of the request that is being served; ``None``: its sender may see all members."""


class RequestVerdict:
    """What middleware decided about one request, and facts of its end that its result does not say.

    Attributes:
        decision: ``"allowed"``, ``"denied"`` or ``"over_quota"``.
        reason: why, in words for the operator; ``None`` without.
        would_deny: the reasons of policies that only observe (``dry_run``).
        timed_out: whether the body took longer than it may.
    """

    __slots__ = ("decision", "reason", "timed_out", "would_deny")

    def __init__(self) -> None:
        self.decision: Literal["allowed", "denied", "over_quota"] = "allowed"
        self.reason: str | None = None
        self.would_deny: list[str] = []
        self.timed_out = False


current_verdict: Final[ContextVar[RequestVerdict | None]] = ContextVar("ferrule_verdict", default=None)
"""The verdict of the request that is being served; ``None`` where nothing records it."""
