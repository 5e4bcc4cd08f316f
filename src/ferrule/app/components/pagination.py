"""Pages of a list whose members may change between requests, and the bounded cache of encoded pages.

A cursor is the registration number of the last member sent, so that the next page is right after members were added or
removed, in this process or in another worker that registered the same components. Cursors are opaque to clients; an
unknown one is refused with -32602. An empty string is a valid cursor (2026-07-28, "Pagination"): here it is the
position before the first member. Therefore test ``cursor is None``, never the truth value of a cursor.
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
    """A member of a list, with its registration number."""

    number: int


MemberT = TypeVar("MemberT", bound=_Numbered)
ValueT = TypeVar("ValueT")


class Page(Generic[MemberT]):
    """One page of a list.

    Attributes:
        members: the members, in the order of their numbers.
        next_cursor: the cursor of the next page; ``None`` on the last page.
    """

    __slots__ = ("members", "next_cursor")

    def __init__(self, members: list[MemberT], next_cursor: str | None) -> None:
        self.members = members
        self.next_cursor = next_cursor


def encode_cursor(number: int) -> str:
    """Return the cursor of the position after a registration number."""
    return urlsafe_b64encode(f"{_PREFIX}{number}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> int:
    """Return the registration number of the last member before a cursor; 0 for the empty cursor.

    Raises:
        InvalidParams: `encode_cursor` cannot have made the cursor.
    """
    if cursor == "":
        return 0
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        text = ""
    number = text.removeprefix(_PREFIX)
    # The length limit bounds the work of `int`; comparing with the encoding leaves one spelling for each position.
    if text.startswith(_PREFIX) and number.isdecimal() and len(number) < 18 and encode_cursor(int(number)) == cursor:
        return int(number)
    raise InvalidParams("The cursor does not come from this server")


def paginate(members: Iterable[MemberT], cursor: str | None, page_size: int | None) -> Page[MemberT]:
    """Return one page.

    Args:
        members: all members, by rising number.
        cursor: ``None`` for the first page.
        page_size: maximum number of members on the page; ``None`` for all remaining ones.

    Raises:
        InvalidParams: the cursor is not one of this server's.
    """
    after = 0 if cursor is None else decode_cursor(cursor)
    rest = [member for member in members if member.number > after]
    if page_size is None or len(rest) <= page_size:
        return Page(rest, None)
    page = rest[:page_size]
    return Page(page, encode_cursor(page[-1].number))


class LruCache(Generic[ValueT]):
    """A mapping of at most ``max_entries`` entries; the least recently used entry is removed first."""

    __slots__ = ("_kept", "_max")

    def __init__(self, max_entries: int) -> None:
        self._max = max_entries
        self._kept: OrderedDict[Hashable, ValueT] = OrderedDict()

    def get(self, key: Hashable) -> ValueT | None:
        """Return a value and mark it as used; ``None`` if there is no such key."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: Hashable, value: ValueT) -> None:
        """Add a value; remove the least recently used one if there are too many."""
        self._kept[key] = value
        if len(self._kept) > self._max:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Remove all entries."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
