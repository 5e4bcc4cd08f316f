"""`AppHost`: a host of views, for tests of tools with a page (MCP Apps).

It opens the page of a tool as a host does: the tool's entry, the resource, the policy, the call. Then the test takes
the part of the view: it sends the messages that the page's script would send, and sees what the host sends. The
messages of both sides are checked against the dialect of views, and the page against its policy. `AppView.findings` has
everything that is wrong.

The script of the page does not run here; `ferrule.testing.browser` has a host that shows pages in a browser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from ferrule import __version__
from ferrule.client.client import Client
from ferrule.extensions.apps.dialect import DISPLAY_MODES, VIEW_PROTOCOL
from ferrule.extensions.apps.listing import visibility_of
from ferrule.extensions.apps.opening import ViewFinding
from ferrule.extensions.apps.sandbox.profiles import PROFILES
from ferrule.protocol.errors import MCPError
from ferrule.testing.hosted_views import AppMessage, HostedView
from ferrule.wire.types import Tool

__all__ = ["AppHost", "AppMessage", "AppView", "Sample", "ViewError", "ViewFinding"]

Sample = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers ``sampling/createMessage`` of views: gets the params and returns the result."""

_CAPABILITIES: Final[Mapping[str, Any]] = {
    "openLinks": {},
    "downloadFile": {},
    "serverTools": {},
    "serverResources": {},
    "logging": {},
    "message": {"text": {}},
    "updateModelContext": {"text": {}, "structuredContent": {}},
}


class ViewError(MCPError):
    """The host answered a request of the view with an error."""


class AppHost:
    """A host of views, without a browser.

    Args:
        client: a connected client, made with ``extensions=CLIENT_SETTINGS``.
        capabilities: what the host offers to views; if not given, all, and sampling only with ``sample``. Without
            ``serverTools``, for instance, calls of the view are refused.
        context: the host's context for views, such as ``{"theme": "dark"}``.
        denies: methods of the view that the user denies, such as ``"ui/open-link"``.
        sample: answers the view's requests to the model.
        profile: the kind of host: ``"specification"``; ``"lists"``, which reads policies from lists only;
            ``"opaque"``, whose views have no origin; ``"example"``, the looser one of the specification's example.

    Raises:
        ValueError: there is no such profile.
    """

    def __init__(
        self,
        client: Client,
        *,
        capabilities: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        denies: Iterable[str] = (),
        sample: Sample | None = None,
        profile: str = "specification",
    ) -> None:
        if profile not in PROFILES:
            raise ValueError(f"profile is one of {', '.join(PROFILES)}, not {profile!r}")
        self.client = client
        self.profile = PROFILES[profile]
        self.sample = sample
        self.capabilities: dict[str, Any] = dict(_CAPABILITIES if capabilities is None else capabilities)
        if capabilities is None and sample is not None:
            self.capabilities["sampling"] = {}
        self.context: dict[str, Any] = {
            "theme": "light",
            "displayMode": "inline",
            "availableDisplayModes": list(DISPLAY_MODES),
            "platform": "web",
            **(context or {}),
        }
        self.denies = frozenset(denies)

    async def model_tools(self) -> list[Tool]:
        """Return the tools that the model gets: without those that only views call."""
        return [tool for tool in await self.client.list_tools() if "model" in visibility_of(tool)]

    async def open(self, tool: str, arguments: Mapping[str, Any] | None = None) -> AppView:
        """Return the view of a tool: its page is read, and the tool is called, as for a call of the model.

        Args:
            tool: the tool's name.
            arguments: the arguments of the call.

        Raises:
            LookupError: there is no such tool, or it has no page.
        """
        view = AppView(self, await self.listed(tool), tool, dict(arguments or {}))
        await view.load()
        return view

    async def listed(self, tool: str) -> dict[str, Tool]:
        """Return the tools of the server by name.

        Raises:
            LookupError: this tool is not among them.
        """
        listed = {each.name: each for each in await self.client.list_tools()}
        if tool not in listed:
            raise LookupError(f"the server lists no tool {tool!r}")
        return listed


class AppView(HostedView):
    """A view without a browser: the test sends what the script of the page would send."""

    async def initialize(self, *, display_modes: Iterable[str] = ("inline",)) -> dict[str, Any]:
        """Do the handshake as the view; then the host sends the arguments and the result of the tool.

        Returns:
            The result of ``ui/initialize``.
        """
        answer = await self.request(
            "ui/initialize",
            {
                "protocolVersion": VIEW_PROTOCOL,
                "appInfo": {"name": "test", "version": __version__},
                "appCapabilities": {"availableDisplayModes": list(display_modes)},
            },
        )
        await self.send({"jsonrpc": "2.0", "method": "ui/notifications/initialized"})
        return answer

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call a tool as the view; return its result.

        Raises:
            ViewError: the host or the server refused it.
        """
        return await self.request("tools/call", {"name": name, "arguments": dict(arguments or {})})

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request as the view, and return its result.

        Raises:
            ViewError: it was refused.
        """
        self._last_id += 1
        answer = await self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": dict(params)})
        assert answer is not None  # requests are always answered
        if "error" in answer:
            error = answer["error"]
            raise ViewError(error["message"], code=error["code"])
        result: dict[str, Any] = answer["result"]
        return result
