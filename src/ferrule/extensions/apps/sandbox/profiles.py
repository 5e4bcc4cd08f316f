"""The hosts that a test host can stand for when it shows a view, and the Content Security Policy of each.

The policy is a header of the proxy page, from whose document the view's frame inherits it, so that the view cannot
change it. It is made of the domains that the server declares, as in the specification: what is not declared is not
loaded.

Source: MCP Apps 2026-01-26, "Content Security Policy Enforcement" and "Sandbox proxy".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ferrule.extensions.apps.policy import UiPolicy
from ferrule.wire.struct import Value

__all__ = ["PROFILES", "HostProfile", "allow_attribute", "policy_header"]

_FEATURES: Final[Mapping[str, str]] = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboardWrite": "clipboard-write",
}
"""The names of permissions in the attribute ``allow`` of a frame."""

_NONE: Final = "'none'"


class HostProfile(Value, frozen=True):
    """A kind of host.

    Attributes:
        name: its name.
        title: what a reader is shown.
        reads_lists_only: whether it takes the policy of a page from ``resources/list`` only.
        has_origin: whether views have an origin; without one ``'self'`` matches nothing, and there is no storage.
        is_loose: whether it also allows ``eval``, and ``blob:`` and ``data:`` URLs, as the example host of the
            specification does.
    """

    name: str
    title: str
    reads_lists_only: bool = False
    has_origin: bool = True
    is_loose: bool = False

    @property
    def sandbox(self) -> str:
        """The attribute ``sandbox`` of the view's frame."""
        return "allow-scripts allow-same-origin allow-forms" if self.has_origin else "allow-scripts allow-forms"


PROFILES: Final[Mapping[str, HostProfile]] = {
    profile.name: profile
    for profile in (
        HostProfile("specification", "as the specification says"),
        HostProfile("lists", "stricter: policies from lists only", reads_lists_only=True),
        HostProfile("opaque", "stricter: views without an origin", has_origin=False),
        HostProfile("example", "looser: the official example host", is_loose=True),
    )
}
"""The profiles by name; the first is the default."""


def policy_header(policy: UiPolicy, profile: HostProfile) -> str:
    """Return the Content Security Policy of a view, without the directives about frames around it.

    Args:
        policy: the policy of the page.
        profile: the kind of host.
    """
    own = "'self'" if profile.has_origin else ""
    loaded = " ".join(policy.resources)
    urls = "data: blob:" if profile.is_loose else ""
    scripts = "'unsafe-eval' blob: data:" if profile.is_loose else ""
    directives = {
        "default-src": _NONE,
        "script-src": f"{own} 'unsafe-inline' {scripts} {loaded}",
        "style-src": f"{own} 'unsafe-inline' {urls} {loaded}",
        "img-src": f"{own} data: {urls} {loaded}",
        "font-src": f"{own} {urls} {loaded}",
        "media-src": f"{own} data: {urls} {loaded}",
        "connect-src": " ".join(policy.connect),
        "worker-src": f"{own} blob: {loaded}" if profile.is_loose else _NONE,
        "frame-src": " ".join(policy.frames),
        "object-src": _NONE,
        "base-uri": " ".join(policy.base_uris) or own,
    }
    # A directive without a source is written with 'none'.
    return "; ".join(f"{name} {' '.join(value.split()) or _NONE}" for name, value in directives.items())


def allow_attribute(policy: UiPolicy, *, has_origin: bool = True) -> str:
    """Return the attribute ``allow`` of the view's frame.

    Args:
        policy: the policy of the page, with its permissions.
        has_origin: whether the view has the origin of its frame's address.
    """
    who = "" if has_origin else " *"
    return "; ".join(f"{_FEATURES[name]}{who}" for name in policy.permissions if name in _FEATURES)
