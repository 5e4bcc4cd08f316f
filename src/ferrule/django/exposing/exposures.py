"""What a project has exposed: read from the URLconf at the first list or call, when all of the project is there."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings as project

from ferrule.app.server import MCPServer
from ferrule.django.conf import DjangoSettings
from ferrule.django.exposing.caller import DjangoCaller
from ferrule.django.exposing.targets import ExposedTarget, ForwardedHeaders, Sender, outer_request
from ferrule.django.permissions import UserCheck
from ferrule.expose.exposure import Exposure, refresh_before_reads
from ferrule.expose.openapi import settings_of
from ferrule.expose.operations import Operation
from ferrule.expose.settings import ExposeSettings

__all__ = ["DjangoExposures"]

logger = logging.getLogger(__name__)


class DjangoExposures:
    """The exposed views of one server.

    Args:
        server: where their tools are registered.
        settings: the setting ``MCP``.

    Attributes:
        waiting: what was exposed and is not made yet.
        made: the rest.
        failures: why something could not be made: `NothingExposed`, `NothingMatches`, `RegistrationError`, or an error
            of the project.
    """

    def __init__(self, server: MCPServer[Any], settings: DjangoSettings) -> None:
        self._server = server
        self._settings = settings
        self._lock = threading.Lock()
        self.waiting: list[_Waiting] = []
        self.made: list[tuple[ExposedTarget, Exposure]] = []
        self.failures: list[Exception] = []

    def add(self, target: ExposedTarget, options: dict[str, Any]) -> None:
        """Expose views.

        Raises:
            TypeError: an option does not exist.
        """
        always = (*_ALWAYS, *self._settings.forward_headers, *options.get("forward_headers", ()))
        headers = ForwardedHeaders(always, _of_sessions())
        settings = settings_of("expose()", {"include": "*", **options, "forward_headers": headers.names})
        self.waiting.append(_Waiting(target, settings, headers))
        refresh_before_reads(self._server, settings, self.read)

    def read(self) -> None:
        """Make the tools of what was exposed since the last call.

        What cannot be exposed is logged, and is one of `failures`; the rest can be used all the same.
        """
        if not self.waiting:
            return
        with self._lock:
            while self.waiting:
                try:
                    self._make(self.waiting[0])
                except Exception as error:
                    self.failures.append(error)
                    logger.exception("what was exposed cannot be offered")
                del self.waiting[0]

    def _make(self, waiting: _Waiting) -> None:
        target, settings, headers = waiting
        caller = DjangoCaller(self._server.threads, target, headers)
        exposure = Exposure(self._server, caller, settings, allow_for=partial(_check_of, target, headers))
        exposure.update(target.describe().operations)
        self.made.append((target, exposure))


_ALWAYS = ("authorization", "accept-language")
"""Headers that every view gets."""


def _of_sessions() -> tuple[str, ...]:
    """Return the headers with which Django knows a session, and checks the CSRF token."""
    csrf = project.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-").lower()
    return "cookie", csrf, "origin", "referer"


class _Waiting(NamedTuple):
    target: ExposedTarget
    settings: ExposeSettings
    headers: ForwardedHeaders


def _check_of(target: ExposedTarget, headers: ForwardedHeaders, operation: Operation) -> UserCheck:
    # A principal of another kind is not the project's: the view alone decides about it.
    return UserCheck(
        lambda principal: target.allows(operation, Sender(principal, outer_request.get(), headers.of(principal))),
        operation.label,
        others=True,
    )
