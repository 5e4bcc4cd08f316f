"""What operators read about a gateway over HTTP: a page, metrics, and the readiness of each server behind it.

* ``/status``: a page with a line for each server.
* ``/metrics``: numbers in the text format of Prometheus.
* ``/readyz/NAME``: 200 if that server is connected, else 503, with its state as a sentence.

They are served like the probes of any endpoint: without authentication, to a ``Host`` that the endpoint serves. They
say nothing that an error says (`ferrule.client.gateway.upstreams.reasons`), and a page of another origin cannot read
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ferrule.transports.asgi.public_documents import DocumentAnswer, DocumentRequest

if TYPE_CHECKING:
    from ferrule.client.gateway.upstreams.upstream import Upstream

__all__ = ["METRICS_PATH", "READY_PATH", "STATUS_PATH", "Monitoring"]

STATUS_PATH: Final = "/status"
METRICS_PATH: Final = "/metrics"
READY_PATH: Final = "/readyz/"

_NO_STORE: Final = ("cache-control", "no-store")
_PAGE: Final = [
    ("content-type", "text/html; charset=utf-8"),
    ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    _NO_STORE,
]
_METRICS: Final = [("content-type", "text/plain; version=0.0.4; charset=utf-8"), _NO_STORE]
_TEXT: Final = [("content-type", "text/plain; charset=utf-8"), _NO_STORE]
_STYLE: Final = (
    "body{font:15px/1.5 system-ui;margin:3em auto;max-width:60em;padding:0 1em}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.4em .8em;border-bottom:1px solid #ccc}"
    ".up{color:#137333}.down{color:#b3261e}"
)
_GAUGES: Final[tuple[tuple[str, str, str, Callable[[Upstream], float]], ...]] = (
    ("ferrule_gateway_upstream_up", "gauge", "Whether the server is connected.", lambda each: float(each.is_up)),
    (
        "ferrule_gateway_upstream_failures",
        "gauge",
        "Failed attempts and lost connections in a row.",
        lambda each: each.status.failures,
    ),
    ("ferrule_gateway_upstream_late", "gauge", "Whether its last list was late.", lambda each: float(each.is_late)),
    ("ferrule_gateway_upstream_active", "gauge", "Requests in progress.", lambda each: each.active),
    ("ferrule_gateway_upstream_processes", "gauge", "Processes of its sessions.", lambda each: each.process_count),
    ("ferrule_gateway_upstream_requests_total", "counter", "Requests forwarded.", lambda each: each.requests),
    ("ferrule_gateway_upstream_errors_total", "counter", "Requests without an answer.", lambda each: each.errors),
)


class Monitoring:
    """The documents of one gateway; see `ferrule.transports.asgi.public_documents.PublicDocuments`.

    Args:
        name: the name of the gateway.
        upstreams: the servers by name.
    """

    def __init__(self, name: str, upstreams: Mapping[str, Upstream]) -> None:
        self._name = name
        self._upstreams = upstreams

    def paths(self, route: str, /) -> Sequence[str]:
        """Return the paths, those of the servers as they are now."""
        return [STATUS_PATH, METRICS_PATH, *(f"{READY_PATH}{quote(name, safe='')}" for name in self._upstreams)]

    def answer(self, request: DocumentRequest, /) -> DocumentAnswer:
        """Return the response to a request for one of the paths."""
        if request.path == STATUS_PATH:
            return 200, self.page().encode(), list(_PAGE)
        if request.path == METRICS_PATH:
            return 200, self.metrics().encode(), list(_METRICS)
        asked = request.path.removeprefix(READY_PATH)
        upstream = next((each for name, each in self._upstreams.items() if asked in (name, quote(name, safe=""))), None)
        if upstream is None:
            return 404, b"There is no such server\n", list(_TEXT)
        return (200 if upstream.is_up else 503), f"{upstream.sentence()}\n".encode(), list(_TEXT)

    def metrics(self) -> str:
        """Return the numbers of all servers."""
        lines: list[str] = []
        for name, kind, text, value in _GAUGES:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f'{name}{{server="{_label(each.name)}"}} {value(each):g}' for each in self._upstreams.values()]
        return "\n".join(lines) + "\n"

    def page(self) -> str:
        """Return the page for people."""
        rows = "".join(
            f"<tr><td>{escape(each.name)}<td class={'up' if each.is_up else 'down'}>{escape(each.status.state)}"
            f"<td>{escape(each.sentence())}<td>{_tools(each)}<td>{each.requests}<td>{each.errors}"
            for each in self._upstreams.values()
        )
        return (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(self._name)}</title>"
            "<meta http-equiv=refresh content=5><meta name=viewport content='width=device-width'>"
            f"<style>{_STYLE}</style><h1>{escape(self._name)}</h1>"
            "<table><tr><th>server<th>state<th>what it says<th>tools<th>requests<th>without an answer"
            f"{rows}</table>"
        )


def _label(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _tools(upstream: Upstream) -> str:
    listed = upstream.known.lists.get("tools/list")
    return "" if listed is None else str(len(listed.items))
