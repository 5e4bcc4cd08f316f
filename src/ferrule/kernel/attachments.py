"""Values that layers above the kernel keep with a server, one of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

__all__ = ["Attachments"]

T = TypeVar("T")


class Attachments(dict[type[Any], Any]):
    """One value of each class: ``server.attachments[RoundsSettings]`` is the server's `RoundsSettings`.

    The layer that owns the class is the one that sets and reads its value. A plain dict at run time; type checkers
    learn the type of a value from its key.
    """

    __slots__ = ()

    def made(self, key: type[T]) -> T:
        """Return the value of a class that is made without arguments, on first use."""
        found = self.get(key)
        if found is None:
            found = self[key] = key()
        return found

    if TYPE_CHECKING:

        def __getitem__(self, key: type[T], /) -> T: ...

        def __setitem__(self, key: type[T], value: T, /) -> None: ...

        @overload
        def get(self, key: type[T], default: None = None, /) -> T | None: ...

        @overload
        def get(self, key: type[T], default: T, /) -> T: ...

        def get(self, key: type[T], default: T | None = None, /) -> T | None: ...  # pyright: ignore[reportIncompatibleMethodOverride]
