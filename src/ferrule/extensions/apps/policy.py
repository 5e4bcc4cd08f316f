"""`UiPolicy`: what a page may load and use, as the ``_meta.ui`` of its resource.

Hosts build the Content Security Policy of the page's frame from it. Some hosts read the content item of
``resources/read`` and others the entry of ``resources/list``, and some treat a missing list as an error, so that all
lists are always present and the same object is published in both places.

Source: MCP Apps 2026-01-26, "UI Resource Format" and "Content Security Policy Enforcement".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from ferrule.extensions.apps.errors import PageError
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.patterns import pattern
from ferrule.wire.struct import Value

__all__ = ["CSP_KEYS", "PERMISSIONS", "UiPolicy", "allows", "host_policy", "make_policy"]

CSP_KEYS: Final = ("connectDomains", "resourceDomains", "frameDomains", "baseUriDomains")
"""The lists of origins in ``_meta.ui.csp``."""

PERMISSIONS: Final = ("camera", "microphone", "geolocation", "clipboardWrite")
"""The permissions in ``_meta.ui.permissions``."""

_ORIGIN = pattern(r"(https?|wss?)://(\*\.)?([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])(:([0-9]{1,5}|\*))?/?")
_CSP_SOURCE = pattern(r"""[^\x00-\x20\x7f-\U0010ffff;,'"]{1,300}""")
"""What can stand in a Content Security Policy without ending its list, its directive or its header."""
MAX_ORIGINS: Final = 50
"""Entries of one list of a foreign server: the header that a host makes of them has to stay short."""
_OTHER_KEYS: Final = {
    **{key.lower(): key for key in CSP_KEYS},
    **dict.fromkeys(("connect", "connectsrc"), "connectDomains"),
    **dict.fromkeys(("childsrc", "frame", "frames", "framesrc"), "frameDomains"),
    **dict.fromkeys(("baseuri", "baseuris"), "baseUriDomains"),
    **dict.fromkeys(
        ("defaultsrc", "fontsrc", "imgsrc", "mediasrc", "resource", "resources", "scriptsrc", "stylesrc"),
        "resourceDomains",
    ),
}
"""Other spellings, and directives of a Content Security Policy, in small letters without separators → the list here."""
_NO_SEPARATORS: Final = str.maketrans("", "", "-_ ")
_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}


class UiPolicy(Value, frozen=True):
    """What one page may load and use.

    Attributes:
        connect: origins of network requests (``connect-src``).
        resources: origins of scripts, styles, pictures, fonts and media.
        frames: origins of nested frames (``frame-src``).
        base_uris: origins of ``<base>`` (``base-uri``).
        permissions: any of `PERMISSIONS`.
        prefers_border: whether the host draws a border; ``None`` lets the host decide.
        domain: origin of the frame, in the form that the host defines; ``None`` for the host's own.
    """

    connect: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    base_uris: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    prefers_border: bool | None = None
    domain: str | None = None

    def meta(self) -> dict[str, Any]:
        """Return the object for ``_meta.ui`` of the resource, with explicit empty lists."""
        lists = (self.connect, self.resources, self.frames, self.base_uris)
        made: dict[str, Any] = {
            "csp": {key: list(origins) for key, origins in zip(CSP_KEYS, lists, strict=True)},
            "permissions": {name: {} for name in self.permissions},
        }
        if self.prefers_border is not None:
            made["prefersBorder"] = self.prefers_border
        if self.domain is not None:
            made["domain"] = self.domain
        return made


def make_policy(
    csp: Mapping[str, Iterable[str]] | None = None,
    permissions: Iterable[str] = (),
    prefers_border: bool | None = None,
    domain: str | None = None,
) -> UiPolicy:
    """Return the policy of a page.

    Args:
        csp: origins by the names of `CSP_KEYS`, such as ``{"resourceDomains": ["https://cdn.example.com"]}``.
        permissions: any of `PERMISSIONS`.
        prefers_border, domain: see `UiPolicy`.

    Raises:
        PageError: there is no such list or permission, or an entry is not an origin.
    """
    if csp is not None and not is_mapping(csp):
        raise PageError(f"csp is an object of lists, such as {{'resourceDomains': ['https://…']}}, not {csp!r}")
    given = dict(csp or {})
    lists = [_origins(key, given.pop(key, ())) for key in CSP_KEYS]
    for key in given:
        here = _OTHER_KEYS.get(str(key).translate(_NO_SEPARATORS).lower())
        raise PageError(
            f"csp has no list {key!r}; " + (f"it is {here!r}" if here else f"there are {', '.join(CSP_KEYS)}")
        )
    _check_type("prefers_border", prefers_border, bool, "True, False or None")
    _check_type("domain", domain, str, "a text or None")
    if not isinstance(cast("object", permissions), Iterable):
        raise PageError(f"permissions is a list of {', '.join(PERMISSIONS)}, not {permissions!r}")
    wanted = tuple(dict.fromkeys([permissions] if isinstance(permissions, str) else permissions))
    for name in wanted:
        if name not in PERMISSIONS:
            raise PageError(f"There is no permission {name!r}; there are {', '.join(PERMISSIONS)}")
    connect, resources, frames, base_uris = lists
    return UiPolicy(connect, resources, frames, base_uris, wanted, prefers_border, domain)


def _check_type(name: str, value: object, kind: type, expected: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise PageError(f"{name} is {expected}, not {value!r}")


def host_policy(ui: Mapping[str, Any]) -> tuple[UiPolicy, list[str]]:
    """Return the policy that a host applies to a page of any server, and what is wrong with the given one.

    Entries that could end their directive or the header are left out, as are those after the first 50 of a list. An
    entry of another form that is no origin stays, because hosts differ in what they do with it.

    Args:
        ui: ``_meta.ui`` of the page, as the server sent it.
    """
    problems: list[str] = []
    csp, permissions = ui.get("csp"), ui.get("permissions")
    lists = [_usable(key, csp.get(key) if is_mapping(csp) else None, problems) for key in CSP_KEYS]
    asked = list(permissions) if is_mapping(permissions) else []
    problems += [f"There is no permission {name!r}" for name in asked[:MAX_ORIGINS] if name not in PERMISSIONS]
    connect, resources, frames, base_uris = lists
    granted = tuple(name for name in PERMISSIONS if name in asked)
    border, domain = ui.get("prefersBorder"), ui.get("domain")
    policy = UiPolicy(
        connect,
        resources,
        frames,
        base_uris,
        granted,
        border if isinstance(border, bool) else None,
        domain if isinstance(domain, str) else None,
    )
    return policy, problems


def _usable(key: str, given: Any, problems: list[str]) -> tuple[str, ...]:
    if given is None:
        return ()
    if not is_list(given):
        problems.append(f"csp[{key!r}] is not a list")
        return ()
    if len(given) > MAX_ORIGINS:
        problems.append(f"csp[{key!r}] has {len(given)} entries; those after the first {MAX_ORIGINS} are left out")
    made: list[str] = []
    for entry in given[:MAX_ORIGINS]:
        shown = repr(entry)[:300]
        if not isinstance(entry, str) or not _CSP_SOURCE.fullmatch(entry):
            problems.append(f"csp[{key!r}]: {shown} is left out: it could add directives of its own")
            continue
        if not _ORIGIN.fullmatch(entry):
            problems.append(f"csp[{key!r}]: {shown} is not an origin such as https://cdn.example.com")
        made.append(entry)
    return tuple(made)


def allows(origins: Iterable[str], url: str) -> bool:
    """Return whether a list of origins allows a URL; ``*.example.com`` allows its subdomains and not itself."""
    try:
        asked = urlsplit(url)
        port = asked.port
    except ValueError:
        return False
    scheme, host = asked.scheme.lower(), (asked.hostname or "").lower()
    for origin in origins:
        try:
            entry = urlsplit(origin.rstrip("/").removesuffix(":*"))
            entry_port = entry.port
        except ValueError:  # an entry of a foreign server
            continue
        allowed = (entry.hostname or "").lower()
        has_host = host.endswith(allowed[1:]) if allowed.startswith("*.") else host == allowed
        has_port = origin.rstrip("/").endswith(":*") or (port or _PORTS.get(scheme)) == (
            entry_port or _PORTS.get(entry.scheme)
        )
        if scheme == entry.scheme.lower() and has_host and has_port:
            return True
    return False


def _origins(key: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise PageError(f"csp[{key!r}] is a list of origins: [{given!r}]")
    if not isinstance(cast("object", given), Iterable):
        raise PageError(f"csp[{key!r}] is a list of origins, not {given!r}")
    made = tuple(dict.fromkeys(given))
    for origin in made:
        # An entry with a space, a quote or a semicolon could add directives of its own to the host's policy.
        if not isinstance(cast("object", origin), str) or not _ORIGIN.fullmatch(origin):
            raise PageError(
                f"csp[{key!r}]: {origin!r} is not an origin such as https://cdn.example.com or https://*.example.com"
            )
    return made
