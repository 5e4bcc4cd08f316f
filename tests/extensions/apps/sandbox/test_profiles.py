"""The Content Security Policy that each kind of host makes of declared domains."""

from __future__ import annotations

import pytest

from ferrule.extensions.apps import UiPolicy
from ferrule.extensions.apps.sandbox.profiles import PROFILES, allow_attribute, policy_header


def directives(profile: str, policy: UiPolicy | None = None) -> dict[str, str]:
    """The directives by name."""
    header = policy_header(policy or UiPolicy(), PROFILES[profile])
    return dict(each.split(" ", 1) for each in header.split("; "))


def test_without_domains_nothing_is_loaded_from_elsewhere() -> None:
    """The restrictive default of the specification."""
    made = directives("specification")
    assert made["default-src"] == made["connect-src"] == made["frame-src"] == made["object-src"] == "'none'"
    assert made["script-src"] == made["style-src"] == "'self' 'unsafe-inline'"
    assert made["img-src"] == made["media-src"] == "'self' data:"
    assert made["base-uri"] == "'self'"


def test_declared_domains_are_allowed_where_they_belong() -> None:
    """Each list has its directives."""
    policy = UiPolicy(("https://c.example",), ("https://r.example",), ("https://f.example",), ("https://b.example",))
    made = directives("specification", policy)
    for name in ("script-src", "style-src", "img-src", "font-src", "media-src"):
        assert made[name].endswith(" https://r.example"), name
    assert made["connect-src"] == "https://c.example"
    assert made["frame-src"] == "https://f.example"
    assert made["base-uri"] == "https://b.example"
    assert "example" not in made["default-src"] + made["object-src"] + made["worker-src"]


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "example"])
def test_only_the_example_host_allows_eval(profile: str) -> None:
    """A view that needs it fails in other hosts."""
    assert "unsafe-eval" not in directives(profile)["script-src"]
    assert "'unsafe-eval' blob: data:" in directives("example")["script-src"]


def test_a_view_without_an_origin_has_no_self() -> None:
    """`'self'` matches nothing there."""
    assert "self" not in policy_header(UiPolicy(), PROFILES["opaque"])
    assert "allow-same-origin" not in PROFILES["opaque"].sandbox


def test_permissions_become_the_attribute_of_the_frame() -> None:
    """With the names that browsers know."""
    policy = UiPolicy(permissions=("camera", "clipboardWrite"))
    assert allow_attribute(policy) == "camera; clipboard-write"
    assert allow_attribute(policy, has_origin=False) == "camera *; clipboard-write *"
    assert allow_attribute(UiPolicy()) == ""
