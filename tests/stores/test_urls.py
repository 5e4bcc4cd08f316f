"""URLs of stores in messages."""

from __future__ import annotations

import traceback

import pytest

from ferrule.stores.store import StoreUrlError, open_store
from ferrule.stores.urls import split_url, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host/0", "redis://host/0"),
        ("redis://me@host/0", "redis://me@host/0"),
        ("redis://me:secret@host/0?a=b", "redis://***@host/0?a=b"),
        ("redis://:secret@host/0", "redis://***@host/0"),
        ("postgresql://a@b:secret@host:1,other:2/d", "postgresql://***@host:1,other:2/d"),
        ("postgresql://host/d?user=me&password=secret", "postgresql://host/d?user=me&password=***"),
        ("postgresql://user:pa#ss@h/db?schema=BAD", "postgresql://***@h/db?schema=BAD"),
        ("postgresql://user:pa?ss@h/db?schema=BAD", "postgresql://***@h/db?schema=BAD"),
        ("postgresql://user:p/ss@h/db?schema=BAD", "postgresql://***@h/db?schema=BAD"),
        ("postgresql://user:p@ss@h/db", "postgresql://***@h/db"),
        ("postgres:user:pass@h/db", "postgres:***@h/db"),
        ("postgresql://h/d?sslpassword=KEYPW&schema=BAD", "postgresql://h/d?sslpassword=***&schema=BAD"),
        ("postgresql://h/d?PASSWORD=a#b&c&schema=BAD", "postgresql://h/d?PASSWORD=***&schema=BAD"),
        ("postgresql://h/d?pass%77ord=abc", "postgresql://h/d?pass%77ord=***"),
        ("jobs.db", "jobs.db"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("redis://host", "host"),
        ("redis://me:pw@host:65535/0", "host"),
        ("redis://[::1]:6379/0", "::1"),
        ("postgresql:///database", None),
        ("postgresql://%2Ftmp:5432/d", "%2Ftmp"),
        ("postgresql://a:1,[::1]:2,c/d", None),
    ],
)
def test_hosts_and_ports_that_may_be(url: str, host: str | None) -> None:
    parts = split_url(url)
    assert parts is not None
    assert "," in parts.netloc or parts.hostname == host


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:secret/7@host:6379/0",
        "redis://:secret[@host/0",
        "redis://host:secret/0",
        "redis://host:65536/0",
        "redis://host/secret",
        "redis://host/0?socket_timeout=secret",
        "redis+cluster://me:secret/7@host:6379",
        "postgresql://me:secret/7@host/d",
        "postgresql://me:secret]@host/d",
        "postgresql://host:65536/d",
        "postgresql://one:1,two:secret/d",
        "sqlite://[secret/x.db",
        "sqlite:///secret%00.db",
    ],
)
def test_a_malformed_url_is_refused_at_once_and_its_password_is_in_no_traceback(url: str) -> None:
    """An unescaped slash in a password makes its beginning the port, which the libraries quote in their errors."""
    with pytest.raises(StoreUrlError) as refused:
        open_store(url)
    said = "".join(traceback.format_exception(refused.value))
    assert "@" not in url or "secret" not in said


@pytest.mark.parametrize(
    ("url", "option"),
    [
        ("redis://host?nope=1", "nope"),
        ("redis://me:secret@host?client_name=a&nope=1", "nope"),
        ("redis://host?ssl_cert_reqs=none", "ssl_cert_reqs"),
        ("rediss://host?ssl_cert_reqs=perhaps", "ssl_cert_reqs"),
        ("redis+cluster://host?nope=1", "nope"),
        ("redis+cluster://host?retry_on_timeout=1", "retry_on_timeout"),
        ("redis+cluster://host?require_full_coverage=1", "require_full_coverage"),
    ],
)
def test_an_option_that_redis_does_not_know_is_refused_at_once(url: str, option: str) -> None:
    """redis-py takes any, and fails at the first command. The clients for commands and for messages must know it."""
    pytest.importorskip("redis")
    with pytest.raises(StoreUrlError, match=f"the option '{option}'") as refused:
        open_store(url)
    assert "secret" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "url",
    [
        "redis://host/2?prefix=a&client_name=b&health_check_interval=5&max_connections=20&socket_keepalive=yes",
        "redis://host?db=3&protocol=3&retry_on_timeout=1&socket_timeout=2.5&encoding=utf-8",
        "rediss://host?ssl_cert_reqs=none&ssl_ca_certs=/x.pem&ssl_check_hostname=no&ssl_min_version=771",
        "redis+cluster://host/0?prefix=a&client_name=b&max_connections=20&protocol=3",
        "rediss+cluster://host?ssl_certfile=/x.pem&ssl_keyfile=/y.pem&socket_timeout=2",
    ],
)
def test_the_options_of_redis_are_taken(url: str) -> None:
    pytest.importorskip("redis")
    assert open_store(url).is_shared
