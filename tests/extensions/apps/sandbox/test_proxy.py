"""The proxy page around views, its policy, and the reports of browsers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ferrule.extensions.apps.sandbox.proxy import proxy_page, proxy_policy, report_of

REPORT = {"effective-directive": "img-src", "blocked-uri": "https://x.example", "line-number": 3, "script-sample": ""}


def test_the_page_runs_in_frames_of_its_hosts_only() -> None:
    """It has their origins, and the policy has them too."""
    hosts = ["https://a.test", "https://b.test"]
    assert 'data-hosts="https://a.test https://b.test"' in proxy_page(hosts)
    assert proxy_policy("default-src 'none'", hosts, "https://v.test/r") == (
        "default-src 'none'; frame-ancestors https://a.test https://b.test; report-uri https://v.test/r"
    )


def test_a_report_has_its_facts() -> None:
    """As text, bounded, without what is empty."""
    facts = report_of(json.dumps({"csp-report": {**REPORT, "source-file": "x" * 2000, "referrer": "r"}}).encode())
    assert facts == {"directive": "img-src", "blocked": "https://x.example", "line": "3", "source": "x" * 500}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'{"csp-report": []}', b"\xff", b"[" * 100_000])
def test_anything_else_is_no_report(body: bytes) -> None:
    """A page can send what it likes to where reports go."""
    found: Any = report_of(body)
    assert found is None
