"""`Secret`: the type of an argument, a field or a setting whose value must be written nowhere."""

from __future__ import annotations

from typing import Any, Final, Generic, NoReturn, Self, TypeVar

__all__ = ["SECRET_KEYWORDS", "Secret"]

ValueT = TypeVar("ValueT", bound=str)

SECRET_KEYWORDS: Final[dict[str, Any]] = {"format": "password", "writeOnly": True}
"""What the schema of a secret says: hosts hide what is typed, and audits and recordings leave it out."""


class Secret(Generic[ValueT]):
    """A text that only `get_secret_value` shows: ``def sign_in(user: str, password: Secret[str])``.

    Its ``repr`` and ``str`` have asterisks, so that logs, tracebacks and error messages have them. It has no JSON form
    and cannot be pickled: a result or a store that would get one fails. In a model of pydantic use its ``SecretStr``.

    Args:
        value: the text.
    """

    __slots__ = ("_value",)

    def __init__(self, value: ValueT) -> None:
        self._value = value

    def get_secret_value(self) -> ValueT:
        """Return the text."""
        return self._value

    def __repr__(self) -> str:
        return "Secret('**********')" if self._value else "Secret('')"

    def __str__(self) -> str:
        return "**********" if self._value else ""

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        import hmac  # few programs compare secrets, and every start would load it

        theirs = str(other.get_secret_value())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        return hmac.compare_digest(_bytes_of(self._value), _bytes_of(theirs))

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Secret is not written: pass the text of get_secret_value() where it is needed")

    def __getstate__(self) -> NoReturn:
        self.__reduce__()


def _bytes_of(text: str) -> bytes:
    # An error of the encoder would have the whole text as its `object`.
    return text.encode("utf-8", "surrogatepass")
