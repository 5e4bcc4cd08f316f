"""What applications of ASGI frameworks have in common for `ferrule.expose.applications.Exposable`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from ferrule.expose.callers.lifespan import ApplicationLife
from ferrule.expose.exchange import Caller
from ferrule.expose.settings import ValidateOutput

__all__ = ["ASGIExposable"]


class ASGIExposable:
    """The base of a framework's `Exposable`: no title, no promise about answers, and one start for all servers.

    A framework's class adds ``version`` and ``describe``, and overrides what it knows better.

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
        """See `Exposable`. Unless a framework says otherwise, nothing makes an answer fit what is described."""
        return "off"

    def started(self) -> AbstractAsyncContextManager[None]:
        """See `Exposable`."""
        return self._life.started()
