"""ferrule.extensions.apps.policy: what a page may load, as hosts read it."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.extensions.apps.errors import PageError
from ferrule.extensions.apps.policy import MAX_ORIGINS, allows, host_policy, make_policy


def test_all_lists_are_explicit() -> None:
    """Some hosts refuse a page whose policy leaves a list out."""
    assert make_policy().meta() == {
        "csp": {"connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": []},
        "permissions": {},
    }
    full = make_policy({"frameDomains": ["https://a.example"]}, ["camera", "clipboardWrite"], False, "x.host.example")
    assert full.meta() == {
        "csp": {
            "connectDomains": [],
            "resourceDomains": [],
            "frameDomains": ["https://a.example"],
            "baseUriDomains": [],
        },
        "permissions": {"camera": {}, "clipboardWrite": {}},
        "prefersBorder": False,
        "domain": "x.host.example",
    }


@pytest.mark.parametrize(
    "entry",
    ["*", "https:", "cdn.example", "'self'", "https://a.example; script-src *", "https://a.example/ x", "data:"],
)
def test_an_entry_is_an_origin(entry: str) -> None:
    """Anything else could add directives of its own to the host's policy, or is dropped by hosts in silence."""
    with pytest.raises(PageError, match="is not an origin"):
        make_policy({"resourceDomains": [entry]})


@pytest.mark.parametrize(
    ("key", "here"),
    [
        ("resource_domains", "resourceDomains"),
        ("img-src", "resourceDomains"),
        ("scriptSrc", "resourceDomains"),
        ("connect-src", "connectDomains"),
        ("connectdomains", "connectDomains"),
        ("frame_src", "frameDomains"),
        ("base-uri", "baseUriDomains"),
    ],
)
def test_the_spelling_of_others_is_answered_with_the_one_here(key: str, here: str) -> None:
    """Directives of a policy, and the snake case of other libraries."""
    with pytest.raises(PageError, match=f"csp has no list '{key}'; it is '{here}'"):
        make_policy({key: ["https://a.example"]})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"csp": "https://a.example"}, "csp is an object of lists"),
        ({"csp": ["https://a.example"]}, "csp is an object of lists"),
        ({"csp": 5}, "csp is an object of lists"),
        ({"csp": {"resourceDomains": None}}, r"csp\['resourceDomains'\] is a list of origins, not None"),
        ({"csp": {"resourceDomains": [1]}}, "1 is not an origin"),
        ({"permissions": 1}, "permissions is a list of camera"),
        ({"prefers_border": "yes"}, "prefers_border is True, False or None, not 'yes'"),
        ({"domain": 1}, "domain is a text or None, not 1"),
    ],
)
def test_a_value_of_another_type_is_named(options: Any, words: str) -> None:
    """Not by an error of Python about something inside."""
    with pytest.raises(PageError, match=words):
        make_policy(**options)


def test_unknown_words_are_refused() -> None:
    """Hosts ignore them, and the page would stay blank."""
    with pytest.raises(PageError, match="csp has no list 'scriptSrc'"):
        make_policy({"scriptSrc": ["https://a.example"]})
    with pytest.raises(PageError, match="no permission 'clipboard'"):
        make_policy(permissions=["clipboard"])
    with pytest.raises(PageError, match="is a list of origins"):
        make_policy({"resourceDomains": "https://a.example"})


@pytest.mark.parametrize(
    ("origin", "url", "is_allowed"),
    [
        ("https://a.example", "https://a.example/x.js", True),
        ("https://a.example", "https://A.example:443/x.js", True),
        ("https://a.example/", "https://a.example", True),
        ("https://a.example", "http://a.example/x.js", False),
        ("https://a.example", "https://a.example:8443/x.js", False),
        ("https://a.example:*", "https://a.example:8443/x.js", True),
        ("https://a.example", "https://a.example.evil.example/x.js", False),
        ("https://*.a.example", "https://b.a.example/x.js", True),
        ("https://*.a.example", "https://a.example/x.js", False),
        ("https://*.a.example", "https://xa.example/x.js", False),
        ("http://localhost:3000", "http://localhost:3000/x.js", True),
        ("https://a.example", "https://a.example:bad/", False),
    ],
)
def test_origins_match_as_in_a_content_security_policy(origin: str, url: str, is_allowed: bool) -> None:
    """Scheme, host and port; a star for the subdomains."""
    assert allows([origin], url) is is_allowed


@pytest.mark.parametrize(
    "entry",
    [
        "https://x.example; script-src *",
        "'unsafe-eval'",
        '"https://x.example"',
        "https://a.example https://b.example",
        "https://x.example\r\nset-cookie: a",
        "https://x.example,script-src *",
        "https://ä.example",
        "",
        "https://" + "a" * 300,
        5,
        None,
    ],
)
def test_a_host_leaves_out_what_could_add_directives(entry: object) -> None:
    """Domains come from a server that may be anyone's."""
    policy, problems = host_policy({"csp": {"resourceDomains": ["https://a.example", entry]}})
    assert policy.resources == ("https://a.example",)
    assert len(problems) == 1
    assert "is left out" in problems[0]


def test_a_host_says_what_is_odd_in_a_policy() -> None:
    """An entry of another form stays, because hosts differ in what they do with it."""
    many = [f"https://a{number}.example" for number in range(MAX_ORIGINS + 1)]
    csp = {"connectDomains": many, "frameDomains": "https://a.example", "resourceDomains": ["https://a.example/path"]}
    ui = {"csp": csp, "permissions": {"camera": {}, "smell": {}}, "prefersBorder": False, "domain": "x"}
    policy, problems = host_policy(ui)
    assert len(policy.connect) == MAX_ORIGINS
    assert policy.frames == ()
    assert policy.resources == ("https://a.example/path",)
    assert (policy.permissions, policy.prefers_border, policy.domain) == (("camera",), False, "x")
    assert len(problems) == 4
    for odd in ({}, {"csp": [], "permissions": []}, {"csp": None, "prefersBorder": "yes", "domain": 1}):
        assert host_policy(odd)[0] == host_policy({})[0]


def test_an_odd_entry_allows_nothing() -> None:
    """And does not end the search for one that does."""
    assert allows(["http://a:99999", "http://[x", "https://a.example"], "https://a.example/x.js")
    assert not allows(["http://a:99999"], "http://a/x.js")
