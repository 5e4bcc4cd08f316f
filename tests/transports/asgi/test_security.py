"""ferrule.transports.asgi.security."""

import logging

import pytest

from ferrule.transports.asgi.security import SecurityPolicy, is_loopback_name, split_host


@pytest.mark.parametrize(
    ("authority", "expected"),
    [
        ("localhost:8000", ("localhost", "8000")),
        ("LOCALHOST.", ("localhost", "")),
        ("[::1]:80", ("::1", "80")),
        ("[::1]", ("::1", "")),
        ("[::1", ("", "")),
        ("[::1]x", ("", "")),
        ("a:b", ("", "")),
        ("a:1:2", ("", "")),
        ("", ("", "")),
    ],
)
def test_a_host_is_split_into_name_and_port(authority: str, expected: tuple[str, str]) -> None:
    """Malformed values give an empty name, which matches nothing."""
    assert split_host(authority) == expected


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "app.localhost"])
def test_loopback_names(name: str) -> None:
    """RFC 6761 reserves localhost and everything below it."""
    assert is_loopback_name(name)


@pytest.mark.parametrize("name", ["evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "0.0.0.0", "10.0.0.1", ""])
def test_names_that_only_look_like_loopback(name: str) -> None:
    """A rebound name must not pass by its prefix."""
    assert not is_loopback_name(name)


@pytest.mark.parametrize(
    ("host", "origin", "passes"),
    [
        ("localhost:8000", None, True),
        ("127.0.0.1:8000", "http://localhost:5173", True),
        ("[::1]:8000", "http://127.0.0.1:8000", True),
        ("evil.example.com", None, False),
        ("localhost:8000", "http://evil.example.com", False),
        ("localhost:8000", "https://localhost.evil.com", False),
        ("localhost:8000", "null", False),
        ("localhost:8000", "", False),
        ("localhost:8000", "file://localhost", False),
        ("evil.com:80:80", None, False),
        (None, None, True),
    ],
)
def test_on_loopback_only_loopback_names_pass(host: str | None, origin: str | None, passes: bool) -> None:
    """A page that was rebound to this machine sends its own name as Host and Origin."""
    policy = SecurityPolicy(loopback=True)
    assert (policy.refuse(host, origin) is None) is passes
    assert (policy.refuse(host, origin) is None) is passes  # and the memo agrees


def test_untold_any_host_passes_and_no_origin() -> None:
    """A mounted application does not know its names; browsers are refused until one is listed."""
    policy = SecurityPolicy()
    assert policy.refuse("anything", None) is None
    assert policy.refuse("anything", "https://anything") is not None


def test_listed_hosts_and_origins_pass() -> None:
    """Names behind a proxy are allowed by listing them; a page of the very same site needs no second listing."""
    policy = SecurityPolicy(
        allowed_hosts=["mcp.example.com", "*.internal:8443"],
        allowed_origins=["https://app.example.com", "https://*.apps.example.com", "http://dev.example.com:*"],
    )
    good = [
        ("mcp.example.com", None),
        ("mcp.example.com:443", "https://mcp.example.com:443"),
        ("MCP.example.com", "https://app.example.com"),
        ("a.internal:8443", "https://x.apps.example.com"),
        ("mcp.example.com", "http://dev.example.com:1234"),
    ]
    bad = [
        ("localhost", None),
        ("internal:8443", None),
        ("a.internal", None),
        ("mcp.example.com", "https://other.example.com"),
        ("mcp.example.com", "http://app.example.com"),
        ("mcp.example.com", "https://app.example.com:8443"),
        ("mcp.example.com", "https://apps.example.com"),
        ("mcp.example.com", "https://evilapps.example.com"),
        ("mcp.example.com", "https://mcp.example.com.evil.com"),
    ]
    assert [pair for pair in good if policy.refuse(*pair) is not None] == []
    assert [pair for pair in bad if policy.refuse(*pair) is None] == []


def test_a_star_turns_a_check_off() -> None:
    """For servers behind a proxy that checks."""
    assert SecurityPolicy(loopback=True, allowed_hosts=["*"]).refuse("evil.com", None) is None
    assert SecurityPolicy(allowed_origins=["*"]).refuse("x", "https://evil.com") is None
    # But an unchecked Host proves nothing about an Origin that equals it.
    assert SecurityPolicy(allowed_hosts=["*"]).refuse("evil.com", "https://evil.com") is not None


def test_loopback_stays_allowed_beside_a_list() -> None:
    """A server behind a local proxy is still asked directly, by health checks and by its author."""
    policy = SecurityPolicy(loopback=True, allowed_hosts=["mcp.example.com"])
    assert policy.refuse("localhost:8000", None) is None
    assert policy.refuse("mcp.example.com", None) is None


def test_a_refused_name_is_logged_once_with_its_option(caplog: pytest.LogCaptureFixture) -> None:
    """The person who set it up must find out what to do, and an attacker must not fill the log."""
    policy = SecurityPolicy(loopback=True)
    with caplog.at_level(logging.WARNING, "ferrule.http"):
        for _ in range(5):
            policy.refuse("mcp.example.com", None)
        for number in range(1000):
            policy.refuse(f"{number}.example.com", None)
    assert "allowed_hosts" in caplog.messages[0]
    assert "mcp.example.com" in caplog.messages[0]
    assert len(caplog.messages) == 100


def test_what_passed_is_remembered_within_a_bound() -> None:
    """The memo makes a good request cheap; names come from outside, so it is bounded."""
    policy = SecurityPolicy()
    for number in range(2000):
        assert policy.refuse(str(number), None) is None
    assert len(policy.known_pairs) == 512


@pytest.mark.parametrize(
    ("peer", "is_trusted"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("::ffff:11.1.2.3", False),
        ("::a01:203", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("unix", False),
    ],
)
def test_a_proxy_is_known_by_its_ipv4_address_on_a_socket_for_both_families(peer: str, is_trusted: bool) -> None:
    policy = SecurityPolicy(trusted_proxies=["10.0.0.0/8", "2001:db8::/32"])
    assert policy.trusts((peer, 5)) is is_trusted


def test_forwarded_headers_count_only_from_trusted_proxies() -> None:
    """Any client can send X-Forwarded-Host."""
    policy = SecurityPolicy(allowed_hosts=["mcp.example.com"], trusted_proxies=["10.0.0.0/8", "::1"])
    headers = {"host": "internal", "x-forwarded-host": "evil.com, mcp.example.com"}
    assert policy.effective_host(headers, ("10.1.2.3", 1)) == "mcp.example.com"
    assert policy.effective_host(headers, ("::1", 1)) == "mcp.example.com"
    assert policy.effective_host(headers, ("192.168.0.1", 1)) == "internal"
    assert policy.effective_host(headers, None) == "internal"
    assert policy.effective_host(headers, ("testclient", 1)) == "internal"
    assert SecurityPolicy().effective_host(headers, ("10.1.2.3", 1)) == "internal"


def test_a_bad_proxy_entry_is_refused_at_once() -> None:
    """A typing mistake must not turn trust off in silence."""
    with pytest.raises(ValueError, match="does not appear"):
        SecurityPolicy(trusted_proxies=["proxy.internal"])
