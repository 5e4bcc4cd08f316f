"""Views of tools (MCP Apps): their pages, their origin, and whether their messages have the right form.

The page of the inspector is the host. It asks here for the document and the policy of a view, for the address of the
proxy page around it, and whether a message fits the dialect of views.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ferrule.extensions.apps import open_page, problems_of, problems_of_result
from ferrule.extensions.apps.sandbox.profiles import PROFILES, allow_attribute, policy_header
from ferrule.inspector.errors import BadCall
from ferrule.inspector.view_origin import ViewOrigin
from ferrule.wire.codec import to_builtins
from ferrule.wire.json_types import is_object
from ferrule.wire.types import Tool

if TYPE_CHECKING:
    from ferrule.client.client import Client
    from ferrule.inspector.feed import Feed

__all__ = ["Views", "describe_page"]

MAX_POLICY_CHARS: Final = 128 << 10
MAX_PROBLEMS: Final = 20


class Views:
    """The views of one inspector.

    Args:
        feed: gets what the browser refused, as events ``view_report``.

    Attributes:
        origin: the origin of the views.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.origin = ViewOrigin(self._publish)

    def _publish(self, key: str, facts: Mapping[str, Any]) -> None:
        self._feed.publish_event("view_report", view=key, **facts)

    async def admit(self, body: Mapping[str, Any]) -> Any:
        """Return path and port of the proxy page of a new view, and the key of its reports.

        Raises:
            BadCall: ``policy`` is not a header, or there is no port for views.
        """
        policy = body.get("policy")
        if not isinstance(policy, str) or len(policy) > MAX_POLICY_CHARS or not policy.isascii():
            raise BadCall(f"policy is a header of at most {MAX_POLICY_CHARS} characters")
        if not policy.isprintable():
            raise BadCall("policy is one line")
        if not self.origin.port:
            raise BadCall("Views are shown by `ferrule dev` only")
        ticket, key = self.origin.admit(policy)
        return {"path": f"/{ticket}", "port": self.origin.port, "view": key}

    async def check(self, body: Mapping[str, Any]) -> Any:
        """Return what is wrong with a message of ``sender``, or with the ``result`` of the request ``method``.

        Raises:
            BadCall: ``sender`` is neither ``"view"`` nor ``"host"``, or there is no such request.
        """
        sender, method = body.get("sender"), body.get("method")
        if "result" in body:
            try:
                return {"problems": problems_of_result(str(method), body["result"])[:MAX_PROBLEMS]}
            except KeyError as error:
                raise BadCall("method is a request of views or of hosts") from error
        if sender != "view" and sender != "host":
            raise BadCall("sender is 'view' or 'host'")
        return {"problems": problems_of(body.get("message"), sender)[:MAX_PROBLEMS]}


async def describe_page(client: Client, tool: str, meta: Any, profile: str) -> dict[str, Any]:
    """Return the page of a tool, and how a host shows it.

    Args:
        client: a connected client.
        tool, meta: name and ``_meta`` of the tool.
        profile: the kind of host, by its name in `PROFILES`.

    Raises:
        ValueError: there is no such profile, or the tool has no page.
    """
    host = PROFILES.get(profile)
    if host is None:
        raise ValueError(f"profile is one of {', '.join(PROFILES)}")
    entry = Tool(tool, input_schema={"type": "object"}, meta=meta if is_object(meta) else None)
    try:
        page = await open_page(client, entry, reads_lists_only=host.reads_lists_only)
    except LookupError as error:
        raise ValueError(str(error)) from error
    csp = page.policy.meta()
    return {
        "uri": page.uri,
        "html": page.html,
        "csp": csp["csp"],
        "permissions": csp["permissions"],
        "border": page.policy.prefers_border,
        "policy": policy_header(page.policy, host),
        "sandbox": host.sandbox,
        "allow": allow_attribute(page.policy, has_origin=host.has_origin),
        "findings": to_builtins(page.findings),
    }
