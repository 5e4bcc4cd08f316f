"""Roots: the folders that a client lists for a server; deprecated in 2026-07-28."""

from typing import Any

from msgspec import field

from ferrule.wire.struct import WireStruct

__all__ = ["ListRootsResult", "Root"]


class Root(WireStruct):
    """A folder or file; ``uri`` starts with ``file://``."""

    uri: str
    name: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListRootsResult(WireStruct):
    """The client's result of ``roots/list``. Not a `Result`: in 2026-07-28 it is one of the input responses."""

    roots: list[Root]
    meta: dict[str, Any] | None = field(name="_meta", default=None)
