"""ferrule.auth.urls: what a URL from outside may be."""

from __future__ import annotations

import pytest

from ferrule.auth.errors import UnsafeUrl
from ferrule.auth.urls import (
    HostClass,
    UrlPolicy,
    canonical_resource,
    class_of_address,
    class_of_host,
    covers_resource,
    well_known_url,
)

LOOPBACK = ("localhost", "a.localhost", "127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "localhost.")
PRIVATE = ("10.0.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.1", "fd00::1", "intranet", "printer.local", "db.internal")
FORBIDDEN = (
    "169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255",
    "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2130706433", "0x7f000001", "127.1", "0177.0.0.1",
)  # fmt: skip
PUBLIC = ("example.com", "8.8.8.8", "2606:4700::1111", "1.1.1.1.example.org")


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_is_recognized_in_every_spelling(host: str) -> None:
    """An address inside another one is still that address."""
    assert class_of_host(host) is HostClass.LOOPBACK


@pytest.mark.parametrize("host", PRIVATE)
def test_private_networks_are_recognized(host: str) -> None:
    """RFC 1918, shared and unique local addresses, and names that only a local resolver resolves."""
    assert class_of_host(host) is HostClass.PRIVATE


@pytest.mark.parametrize("host", FORBIDDEN)
def test_what_no_server_has_is_forbidden(host: str) -> None:
    """The metadata service of a cloud above all, and spellings that only some parsers take for an address."""
    assert class_of_host(host) is HostClass.FORBIDDEN


@pytest.mark.parametrize("host", PUBLIC)
def test_the_rest_is_public(host: str) -> None:
    """Names may still resolve to something else; the driver looks."""
    assert class_of_host(host) is HostClass.PUBLIC


@pytest.mark.parametrize("url", [
    "http://example.com/x", "ftp://example.com/", "javascript:alert(1)", "file:///etc/passwd", "https://", "data:x",
    "https://user:secret@example.com/", "https://exa mple.com/", "https://example.com\\@evil.example/", "https://a:b/",
    "https://127.0.0.1/", "https://10.1.1.1/", "https://169.254.169.254/latest", "https://[::1]/", "https://x.local/",
])  # fmt: skip
def test_a_public_server_may_not_name_it(url: str) -> None:
    """SSRF: the client stands inside the network that the server wants to reach."""
    with pytest.raises(UnsafeUrl) as caught:
        UrlPolicy().check(url, HostClass.PUBLIC)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("server", ["http://localhost:8000/mcp", "http://127.0.0.1/mcp"])
def test_a_loopback_server_may_name_loopback(server: str) -> None:
    """Development on one machine; but even there nothing is link-local."""
    policy = UrlPolicy()
    host_class = policy.class_for(server)
    policy.check("http://localhost:9000/authorize", host_class)
    policy.check("https://example.com/authorize", host_class)
    with pytest.raises(UnsafeUrl):
        policy.check("http://169.254.169.254/", host_class)
    with pytest.raises(UnsafeUrl):
        policy.check("http://example.com/", host_class)


def test_the_exceptions_are_the_programs_to_make() -> None:
    """An authorization server behind a VPN, and plain http for a host that is known."""
    policy = UrlPolicy(allow_private=True, insecure_hosts=["idp.corp"])
    host_class = policy.class_for("https://mcp.example.com/mcp")
    policy.check("http://idp.corp/token", host_class)
    with pytest.raises(UnsafeUrl):
        policy.check("https://127.0.0.1/", host_class)


@pytest.mark.parametrize(("address", "expected"), [("10.0.0.1", HostClass.PRIVATE), ("8.8.8.8", HostClass.PUBLIC)])
def test_addresses_are_judged_by_themselves(address: str, expected: HostClass) -> None:
    """What a name resolves to counts, not what it is called."""
    assert class_of_address(address) is expected


@pytest.mark.parametrize(("url", "expected"), [
    ("https://Example.COM/mcp", "https://example.com/mcp"),
    ("https://example.com", "https://example.com"),
    ("https://example.com/", "https://example.com"),
    ("https://example.com/mcp/", "https://example.com/mcp/"),
    ("https://example.com:8443/a/b?x=1#f", "https://example.com:8443/a/b"),
    ("HTTPS://u:p@example.com/mcp", "https://example.com/mcp"),
])  # fmt: skip
def test_the_canonical_resource(url: str, expected: str) -> None:
    """No fragment, no query, no bare slash; the path is the server's own."""
    assert canonical_resource(url) == expected


@pytest.mark.parametrize(("resource", "covers"), [
    ("https://example.com/mcp", True),
    ("https://example.com", True),
    ("https://example.com/", True),
    ("https://EXAMPLE.com/mcp", True),
    ("https://example.com/mc", False),
    ("https://example.com/mcp/deeper", False),
    ("https://example.com:8443/mcp", False),
    ("http://example.com/mcp", False),
    ("https://example.com.evil.example/mcp", False),
    ("https://example.com/mcp?x", False),
])  # fmt: skip
def test_whose_metadata_they_are(resource: str, covers: bool) -> None:
    """The server's own, or those of a parent path on the same origin, and no others."""
    assert covers_resource(resource, "https://example.com/mcp") is covers


def test_well_known_urls_keep_the_path_behind() -> None:
    """RFC 9728, 3.1; RFC 8414, 3.1."""
    assert well_known_url("https://e.com/a/b/", "x") == "https://e.com/.well-known/x/a/b"
    assert well_known_url("https://e.com", "x") == "https://e.com/.well-known/x"
