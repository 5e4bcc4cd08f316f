"""Pages of a list whose members come and go, and the bounded memory of encoded pages.

A cursor names the last member that was given, by its registration number, so a page continues rightly when members were
added or removed in between, in this process or in another worker that registered the same components. Cursors are
opaque to clients; anything that is not one of ours is -32602. An empty string is a cursor like any other
(2026-07-28, "Pagination"): here it stands before the first member.

The rule a newcomer would break: test ``cursor is None``, never its truth.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from ferrule.protocol.errors import InvalidParams

__all__ = ["LruCache", "Page", "decode_cursor", "encode_cursor", "paginate"]

_PREFIX = "after:"


class _Numbered(Protocol):
    number: int


MemberT = TypeVar("MemberT", bound=_Numbered)
ValueT = TypeVar("ValueT")


class Page(Generic[MemberT]):
    """Members in order, and the cursor of what follows; ``None`` at the end."""

    __slots__ = ("members", "next_cursor")

    def __init__(self, members: list[MemberT], next_cursor: str | None) -> None:
        self.members = members
        self.next_cursor = next_cursor


def encode_cursor(number: int) -> str:
    """The cursor after a registration number."""
    return urlsafe_b64encode(f"{_PREFIX}{number}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> int:
    """The registration number that a cursor stands after; 0 for the empty one.

    Raises:
        InvalidParams: it is not one of ours.
    """
    if cursor == "":
        return 0
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        text = ""
    number = text.removeprefix(_PREFIX)
    if text.startswith(_PREFIX) and number.isdecimal() and len(number) < 18 and encode_cursor(int(number)) == cursor:
        return int(number)
    raise InvalidParams("The cursor is not one that this server gave")


def paginate(members: Iterable[MemberT], cursor: str | None, page_size: int | None) -> Page[MemberT]:
    """One page.

    Args:
        members: all of them, by rising number.
        cursor: ``None`` for the first page.
        page_size: members on a page; ``None`` for all that are left.
    """
    after = 0 if cursor is None else decode_cursor(cursor)
    rest = [member for member in members if member.number > after]
    if page_size is None or len(rest) <= page_size:
        return Page(rest, None)
    page = rest[:page_size]
    return Page(page, encode_cursor(page[-1].number))


class LruCache(Generic[ValueT]):
    """A mapping that forgets what was used longest ago."""

    __slots__ = ("_kept", "_max")

    def __init__(self, max_entries: int) -> None:
        self._max = max_entries
        self._kept: OrderedDict[Hashable, ValueT] = OrderedDict()

    def get(self, key: Hashable) -> ValueT | None:
        """The value, now the freshest; ``None`` if it is not kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, value: ValueT) -> None:
        """Keep a value; the stalest goes when there are too many."""
        self._kept[key] = value
        if len(self._kept) > self._max:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
