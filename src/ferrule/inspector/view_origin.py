"""The origin of views: a second port of the same process, which serves nothing but the proxy page around a view.

====================  ================================================================================================
``GET /TICKET``       the proxy page with the Content Security Policy of one view; once, and only into a frame
``POST /report/KEY``  what the browser refused because of that policy
====================  ================================================================================================

A view has this origin, so that the browser keeps it apart from the page of the inspector: it cannot read that page, nor
its token, and the inspector's API refuses requests from here.

Source: MCP Apps 2026-01-26, "Sandbox proxy".
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from ferrule.extensions.apps.sandbox.proxy import proxy_page, proxy_policy, report_of
from ferrule.inspector.access import AccessRefused, Tickets, check_host, loopback_origins
from ferrule.transports.asgi.body import BodyTooLarge, ClientGone, read_body
from ferrule.transports.asgi.replies import Receive, Send, send_document

__all__ = ["ViewOrigin"]

MAX_REPORT_BYTES: Final = 64 << 10
MAX_REPORTS: Final = 200
"""Reports of one view; a page may be refused something in a loop."""
MAX_REPORTING: Final = 64
"""Views whose reports are taken; those of the oldest are ignored."""


class ViewOrigin:
    """The ASGI application of the views' port.

    Args:
        publish: called with the key of a view and the facts of a report.

    Attributes:
        page_port: port of the inspector's page, the only one that may show the proxy page in a frame; 0 before the
            start.
        port: port of this origin; 0 before the start.
    """

    def __init__(self, publish: Callable[[str, Mapping[str, Any]], None]) -> None:
        self.page_port = 0
        self.port = 0
        self._publish = publish
        self._tickets: Tickets[tuple[str, str]] = Tickets()
        self._reports: OrderedDict[str, int] = OrderedDict()

    def admit(self, policy: str) -> tuple[str, str]:
        """Return the ticket for the proxy page of a new view, and the key of its reports.

        Args:
            policy: the Content Security Policy of the view.
        """
        key = secrets.token_urlsafe(16)
        self._reports[key] = 0
        while len(self._reports) > MAX_REPORTING:
            self._reports.popitem(last=False)
        return self._tickets.make((policy, key)), key

    async def serve(self, scope: Any, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        """Serve one request.

        Args:
            headers: those of the request, with names in lower case.
        """
        method, path = scope["method"], scope["path"]
        try:
            check_host(headers)
            if method == "POST" and path.startswith("/report/"):
                await self._take_report(path.removeprefix("/report/"), receive)
                await self._send(send, 204, "", self._closed())
            elif method == "GET":
                await self._send_proxy(path.removeprefix("/"), headers, send)
            else:
                raise AccessRefused(405, "This address takes GET")
        except AccessRefused as refused:
            await self._send(send, refused.status, str(refused), self._closed())
        except ClientGone:
            return

    async def _send_proxy(self, ticket: str, headers: Mapping[str, str], send: Send) -> None:
        if headers.get("sec-fetch-dest", "iframe") != "iframe":
            raise AccessRefused(403, "This page is shown in a frame of the inspector only")
        policy, key = self._tickets.redeem(ticket)
        own = f"http://{headers['host'].lower()}"
        base = own if own in loopback_origins(self.port) else loopback_origins(self.port)[0]
        hosts = loopback_origins(self.page_port)
        await self._send(send, 200, proxy_page(hosts), proxy_policy(policy, hosts, f"{base}/report/{key}"))

    async def _take_report(self, key: str, receive: Receive) -> None:
        count = self._reports.get(key)
        if count is None or count >= MAX_REPORTS:
            return
        self._reports[key] = count + 1
        try:
            body = await read_body(receive, b"", MAX_REPORT_BYTES)
        except BodyTooLarge:
            return
        facts = report_of(body)
        if facts is not None:
            self._publish(key, facts)

    def _closed(self) -> str:
        return f"default-src 'none'; frame-ancestors {' '.join(loopback_origins(self.page_port))}"

    async def _send(self, send: Send, status: int, body: str, policy: str) -> None:
        headers = [
            ("content-type", "text/html; charset=utf-8" if status == 200 else "text/plain; charset=utf-8"),
            ("cache-control", "no-store"),
            ("content-security-policy", policy),
            # A view without an origin reports too, and its console would name the refused answer.
            ("cross-origin-resource-policy", "cross-origin" if status == 204 else "same-origin"),
            ("origin-agent-cluster", "?1"),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
        ]
        await send_document(send, "GET", status, body.encode(), headers)
