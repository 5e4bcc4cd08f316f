"""The base class of `ferrule.expose.applications.Exposable` for ASGI frameworks."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from ferrule.expose.callers.lifespan import ApplicationLife
from ferrule.expose.exchange import Caller
from ferrule.expose.settings import ValidateOutput

__all__ = ["ASGIExposable"]


class ASGIExposable:
    """The base of a framework's `Exposable`: no title, unchecked responses, and one start for all servers.

    A framework's class adds ``version`` and ``describe``, and may override the other members.

    Args:
        app: the application.
        life: the life of the application; its lifespan runs once, at the first start.
        caller: sends requests into the application.

    Attributes:
        app: the application.
    """

    def __init__(self, app: Any, life: ApplicationLife, caller: Caller) -> None:
        self.app = app
        self._life = life
        self._caller = caller

    @property
    def title(self) -> str | None:
        """See `Exposable`."""
        return None

    @property
    def caller(self) -> Caller:
        """See `Exposable`."""
        return self._caller

    @property
    def validate_output(self) -> ValidateOutput:
        """See `Exposable`. In most frameworks nothing makes a response fit its described schema."""
        return "off"

    def started(self) -> AbstractAsyncContextManager[None]:
        """See `Exposable`."""
        return self._life.started()
