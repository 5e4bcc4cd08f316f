"""The proxy page between a host and a view, and the reports of what its policy refused.

The page has an origin of its own, so that the browser keeps a view apart from the host. The host serves it with the
Content Security Policy of the view as a header: the document of the view inherits it.

Source: MCP Apps 2026-01-26, "Sandbox proxy"; CSP Level 3, "Violation reports".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_mapping

__all__ = ["proxy_page", "proxy_policy", "report_of"]

_FIELDS: Final[Mapping[str, str]] = {
    "directive": "effective-directive",
    "blocked": "blocked-uri",
    "source": "source-file",
    "line": "line-number",
    "sample": "script-sample",
}
_FIELD_CHARS: Final = 500


def proxy_page(hosts: Iterable[str]) -> str:
    """Return the proxy page, which runs only in a frame of a page with one of these origins."""
    return _proxy().replace("HOSTS", " ".join(hosts))


def proxy_policy(policy: str, hosts: Iterable[str], report_url: str) -> str:
    """Return the Content Security Policy of the proxy page.

    Args:
        policy: that of the view.
        hosts: the origins of pages that may show it in a frame.
        report_url: where the browser reports what it refused: absolute, because the URL of the view's document is
            ``about:blank``.
    """
    return f"{policy}; frame-ancestors {' '.join(hosts)}; report-uri {report_url}"


def report_of(body: bytes) -> dict[str, str] | None:
    """Return the facts of a report of the browser; ``None`` if it is none.

    The keys are ``directive``, ``blocked``, ``source``, ``line`` and ``sample``, without those that the report does not
    have; a value has at most 500 characters.
    """
    try:
        report: Any = decode(body)
    except DecodeError:
        return None
    found = report.get("csp-report") if is_mapping(report) else None
    if not is_mapping(found):
        return None
    facts = {name: found.get(field) for name, field in _FIELDS.items()}
    return {name: str(value)[:_FIELD_CHARS] for name, value in facts.items() if value}


@functools.cache
def _proxy() -> str:
    return Path(__file__).with_name("proxy.html").read_text(encoding="utf-8")
