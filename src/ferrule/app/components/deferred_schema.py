"""Input schemas that are made when they are first read, for servers of thousands of tools that few calls use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["DeferredSchema"]


class DeferredSchema(Mapping[str, Any]):
    """An input schema that is made when it is first read.

    A tool that has one is registered without it. A schema that cannot be made then is logged; the tool is left out of
    the list, and a call gives an error result.

    Args:
        make: returns the schema; raises `SignatureError` where it cannot be made.
        arguments: names of the arguments and their descriptions, empty without one; for the search over tools.
    """

    def __init__(self, make: Callable[[], Mapping[str, Any]], arguments: Mapping[str, str]) -> None:
        self.arguments = arguments
        self._make = make
        self._made: Mapping[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        return self._schema()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema())

    def __len__(self) -> int:
        return len(self._schema())

    def _schema(self) -> Mapping[str, Any]:
        if self._made is None:
            self._made = self._make()
        return self._made
