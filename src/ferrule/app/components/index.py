"""The index of one kind of component: by key, in the order of registration, each enabled or not.

Every change discards the encoded pages of the list and is published to the clients that listen to changes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from ferrule._options import suggestion
from ferrule.app.components.pagination import LruCache, paginate
from ferrule.app.errors import RegistrationError
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import ServerRequestContext
from ferrule.protocol.errors import InvalidParams
from ferrule.wire.codec import Encoded, encode
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.app.components.component import Component

__all__ = ["ComponentIndex", "ComponentT", "ListVariant", "OnDuplicate", "shown_name"]

OnDuplicate: TypeAlias = Literal["error", "warn", "replace"]
"""What registering a taken key does: raise, replace with a warning in the log, or replace."""

_MAX_CACHED_PAGES = 32
_MAX_SHOWN_CHARS = 200


if TYPE_CHECKING:
    ComponentT = TypeVar("ComponentT", bound="Component[Any]")
else:
    ComponentT = TypeVar("ComponentT")  # a bound in quotes would be compiled


def shown_name(name: str) -> str:
    """Return a name that a peer sent, shortened for an error message to 200 characters."""
    return name if len(name) <= _MAX_SHOWN_CHARS else name[:_MAX_SHOWN_CHARS] + "…"


class ListVariant(Protocol):
    """Another form of a list, for some clients; a hashable value, since pages are cached by it."""

    def select(self, members: Iterable[Any], /) -> list[Any]:
        """Return the components that are listed in this form."""
        ...

    def change(self, result: Any, /) -> Any:
        """Return a page of the list, which has the definitions of the selected components, in this form."""
        ...


class ComponentIndex(Generic[ComponentT]):
    """Components of one kind.

    Args:
        kind: the kind's name in messages, such as ``"tool"``.
        on_change: called after every change.
        is_private: whether the server authenticates clients, so that shared caches must not keep its lists.

    Attributes:
        live: the enabled components by key; calls look into this.
        is_guarded: whether a component has a guard, so that lists differ between principals.
        has_unlisted: whether a component is left out of the list.
        followers: called after every change, before it is published; see `ferrule.app.components.mounting`.
        checks: called with a key before it is added; an exception refuses it.
        hidden_tags: the disabled tags: a component with such a tag that a mounted server adds later stays hidden.
        before_read: functions that register new components; called before a list is read, and before an unknown key is
            refused. Added by `ferrule.expose.applications` and the extension of skills.
        sources: the indexes of mounted servers, whose components this one has copies of; read before this one.
        variant_of: ``(request) -> ListVariant | None``: the form of the list for the sender of a request, ``None`` for
            the list as it is. Set by an extension; ``None``: one form for all clients.
        on_duplicate: what `add` does with a taken key. A copy from a mounted server is never replaced, and replaces
            nothing.
    """

    def __init__(self, kind: str, on_change: Callable[[], None], is_private: bool = False) -> None:
        self.kind = kind
        self.live: dict[str, ComponentT] = {}
        self._all: dict[str, ComponentT] = {}
        self._on_change = on_change
        self._last_number = 0
        self._pages: LruCache[Encoded] = LruCache(_MAX_CACHED_PAGES)
        self.followers: list[Callable[[], None]] = []
        self.checks: list[Callable[[str], None]] = []
        self.hidden_tags: set[str] = set()
        self._hidden_keys: set[str] = set()
        self.is_guarded = False
        self.has_unlisted = False
        self.is_private = is_private
        self.before_read: list[Callable[[], None]] = []
        self.sources: list[ComponentIndex[ComponentT]] = []
        self.variant_of: Callable[[ServerRequestContext[Any]], ListVariant | None] | None = None
        self.on_duplicate: OnDuplicate = "error"

    @property
    def can_refresh(self) -> bool:
        """Whether `refresh` may register something."""
        return bool(self.before_read) or bool(self.sources)

    def refresh(self) -> None:
        """Register components that were added since the last read, in this server and in those mounted in it."""
        for source in self.sources:
            source.refresh()
        for register in self.before_read:
            register()

    def look_again(self, key: str) -> ComponentT | None:
        """Return an enabled component that `refresh` registered; ``None`` if there is none."""
        if not self.can_refresh:
            return None
        self.refresh()
        return self.live.get(key)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[ComponentT]:
        return iter(self._all.values())

    def __contains__(self, key: str) -> bool:
        return key in self._all

    def all_keys(self) -> list[str]:
        """Return a copy of the keys of all components, enabled or not."""
        return list(self._all)

    def items(self) -> list[tuple[str, ComponentT]]:
        """Return a copy of the keys and components, enabled or not."""
        return list(self._all.items())

    def changed(self) -> None:
        """Discard the pages of the list and publish the change, after facts of listed components have changed."""
        self._changed()

    def touch(self) -> None:
        """Call the followers after a component's facts were changed in place."""
        for follower in self.followers:
            follower()

    def unknown(self, key: str, ctx: ServerRequestContext[Any]) -> InvalidParams:
        """Return the error for an unknown key, with a similar key that the sender of the request may see."""
        from ferrule.kernel.serving.members import member_filter

        names = (
            name for name, component in self.live.items() if component.guard is None or component.guard.is_visible(ctx)
        )
        # A policy may hide any of the names, and may be async.
        close = suggestion(key, names) if member_filter.get() is None else None
        return InvalidParams(
            f"Unknown {self.kind}: {shown_name(key)}" + (f"; did you mean {close!r}?" if close else "")
        )

    def get(self, key: str) -> ComponentT | None:
        """Return a component, enabled or not; ``None`` if there is no such key."""
        return self._all.get(key)

    def guard(self, component: ComponentT) -> None:
        """Set the guard of a component from its options; call it before `add`. See `ferrule.app.authorization`."""
        scopes, allow = component.options.scopes, component.options.allow
        if scopes or allow is not None:
            from ferrule.app.authorization.guards import make_guard

            component.guard = make_guard(scopes, allow)
            self.is_guarded = self.is_guarded or component.guard is not None

    def check_free(self, key: str) -> None:
        """Check that a key is free in this server and in every server that it is mounted in.

        Raises:
            RegistrationError: the key is taken.
        """
        if key in self._all:
            raise RegistrationError(f"There is already a {self.kind} {key!r}; remove it first")
        for check in self.checks:
            check(key)

    def can_replace(self, key: str) -> bool:
        """Return whether `add` replaces a component with this key."""
        taken = self._all.get(key)
        return taken is not None and taken.original is None and self.on_duplicate != "error"

    def _replace(self, key: str, component: ComponentT) -> None:
        """Put a component in the place of another; it is enabled if that one is."""
        if self.on_duplicate == "warn":
            import logging

            logging.getLogger("ferrule.app").warning("The %s %r was registered again and is replaced", self.kind, key)
        taken = self._all[key]
        component.number, component.enabled = taken.number, taken.enabled
        self._all[key] = component
        if key in self.live:
            self.live[key] = component
        self._changed()

    def add(self, key: str, component: ComponentT, *, is_mounted: bool = False) -> None:
        """Add a component at the end, or in the place of one with the same key if ``on_duplicate`` says so.

        Args:
            key: its name, URI or template text.
            component: the component.
            is_mounted: the component is a copy from a mounted server; a key or tag disabled in this server stays so.

        Raises:
            RegistrationError: the key is taken.
        """
        if key in self._all and not is_mounted:
            if self.can_replace(key):
                self._replace(key, component)
                return
            if self.on_duplicate == "error":
                raise RegistrationError(
                    f"There is already a {self.kind} {key!r}; remove it first, or let the later one replace it: "
                    "MCPServer(on_duplicate='replace')"
                )
        self.check_free(key)
        self._last_number += 1
        component.number = self._last_number
        if is_mounted:
            component.enabled = key not in self._hidden_keys and self.hidden_tags.isdisjoint(component.tags)
        self._all[key] = component
        if component.enabled and component.is_offered:
            self.live[key] = component
        self._changed()

    def remove(self, key: str, *, is_mounted: bool = False) -> ComponentT:
        """Remove a component and return it.

        Args:
            key: its key.
            is_mounted: the mounted server removed it and may add it again; whether the key is disabled is kept.

        Raises:
            KeyError: there is no such component.
        """
        component = self._all.pop(key)
        self.live.pop(key, None)
        if not is_mounted:
            self._hidden_keys.discard(key)
        self._changed()
        return component

    def set_enabled(self, key: str, enabled: bool) -> None:
        """Enable or disable a component; a disabled one is neither listed nor served.

        Raises:
            KeyError: there is no such component.
        """
        component = self._all[key]
        if enabled:
            self._hidden_keys.discard(key)
        else:
            self._hidden_keys.add(key)
        if component.enabled is not enabled:
            component.enabled = enabled
            self._update_live(key)

    def set_offered(self, key: str, is_offered: bool) -> None:
        """Record whether the mounted server shows a component.

        Raises:
            KeyError: there is no such component.
        """
        component = self._all[key]
        if component.is_offered is not is_offered:
            component.is_offered = is_offered
            self._update_live(key)

    def _update_live(self, key: str) -> None:
        component = self._all[key]
        if component.enabled and component.is_offered:
            # Rebuilt, not appended: pages need the components by rising number.
            self.live = {name: member for name, member in self._all.items() if member.enabled and member.is_offered}
        elif self.live.pop(key, None) is None:
            return
        self._changed()

    def _changed(self) -> None:
        self._pages.clear()
        for follower in self.followers:
            follower()
        self._on_change()

    def page(
        self,
        ctx: ServerRequestContext[Any],
        cursor: str | None,
        page_size: int | None,
        make: Callable[[list[ComponentT], str | None, Revision], Any],
        *,
        shown: Callable[[], list[ComponentT] | None] | None = None,
    ) -> Encoded:
        """Return one page of the list as encoded JSON; pages are cached.

        Args:
            ctx: the request; its revision and cache hints are part of the cache's key.
            cursor: as the client sent it; ``None`` for the first page.
            page_size: maximum number of members on a page; ``None`` for all.
            make: function from the members, the next cursor and the revision to the result.
            shown: returns the members to list; ``None`` from it, or in its place, for all. Its result must depend only
                on the members, since pages are cached until they change.

        Raises:
            InvalidParams: the cursor is not one of this server's.
        """
        if self.before_read or self.sources:
            self.refresh()
        server, connection = ctx.server, ctx.session.connection
        hints = server.cache_hints
        chosen = None if shown is None else shown()
        members: Collection[ComponentT] = self.live.values() if chosen is None else chosen
        visible: tuple[int, ...] | None = None
        if self.is_guarded:
            members = [member for member in members if member.guard is None or member.guard.is_visible(ctx)]
            visible = tuple(member.number for member in members)
        variant = None if self.variant_of is None else self.variant_of(ctx)
        key = (connection.protocol_version, cursor, hints.get(ctx.method), hints.get("*"), visible, variant)
        found = self._pages.get(key)
        if found is None:
            page = paginate(members if variant is None else variant.select(members), cursor, page_size)
            result = make(page.members, page.next_cursor, connection.revision)
            if variant is not None:
                result = variant.change(result)
            if self.is_private or visible is not None or self.variant_of is not None:
                result = replace(result, cache_scope="private")
            found = Encoded(encode(finish_result(server, connection, ctx.method, result)))
            self._pages.put(key, found)
        return found
