"""`PageError`: a page that cannot be shown, with the file and the line of the reason."""

from __future__ import annotations

from ferrule.app.errors import RegistrationError

__all__ = ["PageError"]


class PageError(RegistrationError):
    """A page of an app cannot be packaged: a file is missing, or it needs what its policy does not allow.

    Attributes:
        reason: the explanation without the place.
        file: the file; the name of the page for one that is given as text.
        line: the line in it, from 1; ``None`` for the file as a whole.
    """

    def __init__(self, reason: str, *, file: str = "", line: int | None = None) -> None:
        where = f"{file}:{line}: " if file and line is not None else f"{file}: " if file else ""
        super().__init__(f"{where}{reason}")
        self.reason = reason
        self.file = file
        self.line = line
