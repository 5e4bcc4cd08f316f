"""Several servers in one inspector, each with a controller, a feed and messages of its own.

A page shows one of them, and every page gets the state of all. A server that cannot be reached, or whose entry in the
configuration is malformed, is one of them, with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from ferrule.inspector.controller import InspectorController
from ferrule.inspector.target import InspectedTarget
from ferrule.inspector.view_origin import ViewOrigin

__all__ = ["ServerSet"]

MAX_SERVERS: Final = 100
"""Each one is a process or a connection of its own."""


class ServerSet:
    """The servers of one inspector.

    Args:
        targets: name → target, or the text that says why there is none. The first target is shown by default.
        make: makes the controller of a target.

    Attributes:
        views: the origin of views, which all servers share.

    Raises:
        ValueError: there is no target, or there are more than 100 servers.
    """

    def __init__(
        self, targets: Mapping[str, InspectedTarget | str], make: Callable[[InspectedTarget], InspectorController]
    ) -> None:
        if len(targets) > MAX_SERVERS:
            raise ValueError(f"An inspector has at most {MAX_SERVERS} servers, and these are {len(targets)}")
        self._broken = {name: target for name, target in targets.items() if isinstance(target, str)}
        self._controllers = {
            name: make(target) for name, target in targets.items() if isinstance(target, InspectedTarget)
        }
        if not self._controllers:
            raise ValueError("; ".join(f"{name}: {why}" for name, why in self._broken.items()) or "There is no server")
        self.views = ViewOrigin(self._publish_report)
        for name, controller in self._controllers.items():
            controller.views.origin = self.views
            controller.on_state = functools.partial(self._publish, name)
        for name, why in self._broken.items():
            self._publish(name, {"state": "failed", "error": why}, is_usable=False)
        for name in self._controllers:
            self._publish(name, {"state": "connecting"})

    def get(self, name: str) -> InspectorController | None:
        """Return the controller of a server, the first one for an empty name; ``None`` if there is none."""
        return self._controllers.get(name) if name else next(iter(self._controllers.values()))

    async def start(self) -> None:
        """Connect to every server, each in the background."""
        for controller in self._controllers.values():
            await controller.start()

    async def drain(self) -> None:
        """End the event streams of every server."""
        for controller in self._controllers.values():
            await controller.feed.aclose()

    async def aclose(self) -> None:
        """Close every server."""
        for controller in self._controllers.values():
            await controller.aclose()

    def _publish(self, name: str, facts: Mapping[str, Any], *, is_usable: bool = True) -> None:
        server: Mapping[str, Any] = facts.get("server") or {}
        shown = {
            "state": facts["state"],
            "error": str(facts.get("error") or "")[:2000],
            "title": str(server.get("title") or server.get("name") or "")[:200],
            "is_usable": is_usable,
            "is_first": name == next(iter(self._controllers)),
        }
        for controller in self._controllers.values():
            controller.feed.publish_state("server", name, **shown)

    def _publish_report(self, view: str, facts: Mapping[str, Any]) -> None:
        for controller in self._controllers.values():  # the page that shows the view takes it; others ignore its key
            controller.feed.publish_event("view_report", view=view, **facts)
