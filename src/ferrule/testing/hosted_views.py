"""`HostedView`: the host's half of a view, for tests: it serves the messages of a page's script and checks them.

Where the messages come from is the matter of its subclasses: from the test itself (`ferrule.testing.apps`), or from a
page in a browser (`ferrule.testing.browser`).

Source: MCP Apps 2026-01-26, "Communication Protocol".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from ferrule import __version__
from ferrule.extensions.apps.dialect import MESSAGES, VIEW_PROTOCOL, Sender, problems_of, problems_of_result
from ferrule.extensions.apps.listing import visibility_of
from ferrule.extensions.apps.opening import FindingKind, ViewFinding, open_page, required_page_uri
from ferrule.extensions.apps.policy import UiPolicy
from ferrule.protocol.errors import InvalidParams, MCPError, MethodNotFound
from ferrule.wire.codec import to_builtins
from ferrule.wire.json_types import is_mapping
from ferrule.wire.struct import Value
from ferrule.wire.types import Tool

if TYPE_CHECKING:
    from ferrule.testing.apps import AppHost

__all__ = ["AppMessage", "HostedView"]

_DENIED: Final = -32000


class AppMessage(Value, frozen=True):
    """A message between view and host.

    Attributes:
        sender: ``"view"`` or ``"host"``.
        body: the JSON-RPC message.
    """

    sender: Sender
    body: dict[str, Any]


class HostedView:
    """One view: the page of a tool, and the messages between its script and the host.

    `AppView` and `BrowserView` are made of it.

    Attributes:
        tool: the tool's entry in the list.
        arguments: the arguments of the call.
        uri: the page's URI.
        html: the page; empty if it cannot be read.
        policy: the policy that the host applies: that of the content item, else that of the list entry.
        result: the tool's result as the view gets it.
        messages: the messages of both sides, in order.
        findings: what a host would refuse.
        size: the last size that the view reported, as ``(width, height)``.
        links: the links that the view opened.
        chat: the messages that the view sent to the conversation.
        model_context: what the view last set as context for the model; ``None`` before.
        logged: the log messages of the view.
        downloads: the files that the view offered, as blocks of content.
        wants_to_close: whether the view asked to be removed.
        is_initialized: whether the view has finished its handshake.
        is_over: whether the host has removed the view.
    """

    def __init__(self, host: AppHost, tools: Mapping[str, Tool], name: str, arguments: dict[str, Any]) -> None:
        self.host = host
        self.tool = tools[name]
        self.arguments = arguments
        self.uri = required_page_uri(self.tool)
        self.html = ""
        self.policy = UiPolicy()
        self.result: dict[str, Any] = {}
        self.messages: list[AppMessage] = []
        self.findings: list[ViewFinding] = []
        self.size: tuple[float, float] | None = None
        self.links: list[str] = []
        self.chat: list[dict[str, Any]] = []
        self.model_context: dict[str, Any] | None = None
        self.logged: list[dict[str, Any]] = []
        self.downloads: list[dict[str, Any]] = []
        self.wants_to_close = False
        self.is_over = False
        self._tools = tools
        self._context = {**host.context, "toolInfo": {"tool": to_builtins(self.tool)}}
        self._own_modes: list[str] | None = None
        self.is_initialized = False
        self._last_id = 0

    def check(self) -> None:
        """Raise an exception if there is a finding.

        Raises:
            AssertionError: with all findings.
        """
        if self.findings:
            raise AssertionError("\n".join(f"{finding.kind}: {finding.text}" for finding in self.findings))

    # -- opening -------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the page and call the tool; `AppHost.open` does it."""
        page = await open_page(self.host.client, self.tool, reads_lists_only=self.host.profile.reads_lists_only)
        self.html, self.policy = page.html, page.policy
        self.findings += page.findings
        self.result = await self._call(self.tool.name, self.arguments)

    def _find(self, kind: FindingKind, text: str) -> None:
        self.findings.append(ViewFinding(kind, text))

    async def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        outcome = await self.host.client.call_tool(name, arguments, raise_on_error=False)
        if not any(block.type == "text" and block.text for block in outcome.content):
            self._find("text", f"the result of {name!r} has no text for hosts without views")
        made: dict[str, Any] = {"content": to_builtins(outcome.content)}
        if outcome.structured_content is not UNSET and outcome.structured_content is not None:
            made["structuredContent"] = to_builtins(outcome.structured_content)
            if not is_mapping(made["structuredContent"]):
                self._find("data", f"the structured content of {name!r} is no object: give it structured='object'")
        if outcome.is_error:
            made["isError"] = True
        if outcome.meta:
            made["_meta"] = dict(outcome.meta)
        return made

    # -- the host's part -----------------------------------------------------------------------------------------------

    def _post(self, body: dict[str, Any]) -> None:
        """Send a message to the view."""
        message = {"jsonrpc": "2.0", **body}
        if "method" in message:
            for problem in problems_of(message, "host"):
                self._find("message", f"host: {problem}")
        self.messages.append(AppMessage("host", message))

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification to the view, such as ``ui/notifications/tool-input-partial``."""
        self._post({"method": method, "params": dict(params)})

    def change_context(self, **changes: Any) -> None:
        """Change the host's context, such as ``theme="dark"``, and notify the view."""
        self._context.update(changes)
        self.notify("ui/notifications/host-context-changed", changes)

    def cancel(self, reason: str = "user action") -> None:
        """Tell the view that the tool's call was cancelled."""
        self.notify("ui/notifications/tool-cancelled", {"reason": reason})

    def received(self, method: str) -> list[dict[str, Any]]:
        """Return the params of all messages of a method that the view got, in order."""
        return [
            each.body["params"] for each in self.messages if each.sender == "host" and each.body.get("method") == method
        ]

    async def close(self) -> None:
        """Remove the view: it is asked to save what it has (``ui/resource-teardown``)."""
        self._last_id += 1
        self._post({"id": self._last_id, "method": "ui/resource-teardown", "params": {}})
        self.is_over = True

    async def send(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Take a message that the view posts, and return the host's answer; ``None`` for a notification.

        A message that does not fit the dialect is a finding, and an error for a request.
        """
        self.messages.append(AppMessage("view", message))
        if "method" not in message:  # the answer to a request of the host
            return None
        problems = problems_of(message, "view")
        for problem in problems:
            self._find("message", f"view: {problem}")
        method = message["method"]
        try:
            if not isinstance(method, str) or method not in MESSAGES:
                raise MethodNotFound(str(method))
            if problems:
                raise InvalidParams("; ".join(problems))
            result = await self._serve(method, message.get("params") or {})
        except MCPError as error:
            failure = {"code": error.code, "message": error.message}
            return None if "id" not in message else self._answer(message["id"], error=failure)
        if "id" not in message:
            return None
        for problem in problems_of_result(method, result):
            self._find("message", f"host: {problem}")
        return self._answer(message["id"], result=result)

    def _answer(self, id: Any, **outcome: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": id, **outcome}
        self._post(body)
        return body

    async def _serve(self, method: str, params: dict[str, Any]) -> Any:
        capability = MESSAGES[method].capability
        if method in self.host.denies or (capability and capability not in self.host.capabilities):
            raise MCPError(f"The host denies {method}", code=_DENIED)
        if not self.is_initialized and method not in ("ui/initialize", "ui/notifications/initialized", "ping"):
            self._find("message", f"view: {method} came before ui/notifications/initialized")
        match method:
            case "ui/initialize":
                self._own_modes = params["appCapabilities"].get("availableDisplayModes")
                return {
                    "protocolVersion": VIEW_PROTOCOL,
                    "hostInfo": {"name": "ferrule.testing", "version": __version__},
                    "hostCapabilities": self.host.capabilities,
                    "hostContext": self._context,
                }
            case "ui/notifications/initialized":
                self.is_initialized = True
                self.notify("ui/notifications/tool-input", {"arguments": self.arguments})
                self.notify("ui/notifications/tool-result", self.result)
            case "tools/call":
                return await self._call_for_view(params)
            case "resources/read":
                result = await self.host.client.read_resource(params["uri"])
                return {"contents": to_builtins(result.contents)}
            case "sampling/createMessage":
                if self.host.sample is None:
                    raise MethodNotFound(method)
                return await self.host.sample(params)
            case _:
                return self._note(method, params)
        return None

    async def _call_for_view(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params["name"]
        tool = self._tools.get(name)
        if tool is None:
            raise InvalidParams(f"Unknown tool: {name}")
        if "app" not in visibility_of(tool):
            self._find("visibility", f"the view called {name!r}, whose visibility does not include 'app'")
            raise MCPError(f"{name} is not for views", code=_DENIED)
        return await self._call(name, params.get("arguments") or {})

    def _note(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "ui/notifications/size-changed":
                self.size = (params.get("width", 0), params.get("height", 0))
            case "ui/open-link":
                self.links.append(params["url"])
            case "ui/message":
                self.chat.append(params)
            case "ui/update-model-context":
                self.model_context = params
            case "notifications/message":
                self.logged.append(params)
            case "ui/download-file":
                self.downloads += params["contents"]
            case "ui/notifications/request-teardown":
                self.wants_to_close = True
            case "ui/request-display-mode":
                return {"mode": self._change_mode(params["mode"])}
            case _:
                pass
        return {}

    def _change_mode(self, mode: str) -> str:
        """Return the display mode after a request for one; a view that names its modes gets no other."""
        offered = self._context.get("availableDisplayModes", ())
        if mode in offered and (self._own_modes is None or mode in self._own_modes):
            self._context["displayMode"] = mode
        return str(self._context.get("displayMode", "inline"))
