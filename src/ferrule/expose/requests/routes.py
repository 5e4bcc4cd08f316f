"""Which of an API's paths a request would reach, so that a value never calls another operation than the tool's own.

``GET /users/{id}`` and ``GET /users/me`` are two operations, and a router prefers the second one for ``id="me"``
(OpenAPI, "Path Templating Matching"). A request is compared as a router reads it: percent-encoding decoded, slashes of
values included, since servers and proxies exist that decode a path before they split it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

from msgspec import Struct

from ferrule.expose.exchange import ApiRequest, ApiResponse, Caller, CallerUnavailable, Origin
from ferrule.expose.operations import Operation
from ferrule.expose.requests.build import PATH_CHARS

__all__ = [
    "MAX_PATH_CHARS",
    "NAMES_ANOTHER_OPERATION",
    "CheckedCaller",
    "Route",
    "Routes",
    "by_router",
    "routes_of",
    "same_route",
]

MAX_PATH_CHARS = 8192
"""Characters of a path with values in it; a longer one is refused. Common servers take 4 to 16 kB."""

NAMES_ANOTHER_OPERATION = "these values in the path name another operation, which is not this tool's"

_VARIABLE = re.compile(r"\{([^{}/]*)\}")
_SLASHES = re.compile(r"/{2,}")

_MAX_VARIABLES_IN_STEP = 2
"""Maximum number of variables between two slashes that are distinguished. If there are more, any text matches between
the first and the last one, which bounds the time of a comparison."""


class Route(NamedTuple):
    """What an API serves.

    Attributes:
        method: in capitals; ``*`` for any.
        path: with the names of variables in braces.
        long: names of the variables whose values may have slashes.
    """

    method: str
    path: str
    long: frozenset[str] = frozenset()


def routes_of(operations: Iterable[Operation]) -> list[Route]:
    """Return the routes of operations."""
    return [
        Route(
            operation.method,
            operation.path,
            frozenset(each.name for each in operation.parameters if each.location == "path" and each.allow_reserved),
        )
        for operation in operations
    ]


def same_route(one: str, other: str) -> bool:
    """Return whether two paths are the same but for the names of their variables."""
    return _VARIABLE.sub("{}", one) == _VARIABLE.sub("{}", other)


class Routes:
    """The routes of one API, compared with each other.

    Args:
        routes: all of them, also those that are not exposed.
        ignore_case: whether ``/Users/ME`` may reach ``/users/me``, as it does in some frameworks.
    """

    def __init__(self, routes: Iterable[Route], *, ignore_case: bool = False) -> None:
        self._flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        self._by_method: dict[str, list[Route]] = {}
        for route in routes:
            self._by_method.setdefault(route.method, []).append(route)
        self._known: dict[tuple[str, str], _Own] = {}

    def names_another(self, request: ApiRequest) -> bool:
        """Return whether another route may get a request than the one that it was made for (`ApiRequest.route`).

        That is so if the request fits the other one, and a value stands where the other one has text of its own.
        """
        if "{" not in request.route:
            return False
        key = request.method, request.route
        own = self._known.get(key)
        if own is None:
            own = self._known[key] = self._own(*key)
        if own.aligned:  # as a router reads it that splits a path before it decodes it
            path, values = _as_read(request.path, own.pattern, slash="\0")
            if any(_claims(rival, path, values) for rival in own.aligned):
                return True
        if not own.has_long and "%2f" not in request.path.lower():
            return False
        rivals = own.rivals
        if rivals is None:
            rivals = own.rivals = [self._pattern(each) for each in self._others(*key) if _may_meet(own.path, each)]
        path, values = _as_read(request.path, own.pattern)
        return any(_claims(rival, path, values) for rival in rivals)

    def _own(self, method: str, route: str) -> _Own:
        long = next((each.long for each in self._by_method.get(method, ()) if each.path == route), frozenset[str]())
        path = _normal(route)
        aligned = [
            self._pattern(each)
            for each in self._others(method, route)
            if each.long or _is_more_literal(path, each.path)
        ]
        return _Own(
            path=path, has_long=bool(long), pattern=_pattern(path, long, self._flags, _written), aligned=aligned
        )

    def _others(self, method: str, route: str) -> list[Route]:
        # A router that has no HEAD of its own takes that of GET, which changes nothing.
        every = (*self._by_method.get(method, ()), *self._by_method.get("*", ()))
        return [each for each in every if not same_route(_normal(route), _normal(each.path))]

    def _pattern(self, route: Route) -> re.Pattern[str]:
        return _pattern(_normal(route.path), route.long, self._flags, unquote)


class _Own(Struct):
    """What is known of one route.

    Attributes:
        path: the template, without a slash at its end.
        has_long: whether a value may have slashes.
        pattern: what fits its percent-encoded paths.
        aligned: the routes that a request with values of one step each may reach instead.
        rivals: those that a request with any values may reach instead; found when the first one has a slash.
    """

    path: str
    has_long: bool
    pattern: re.Pattern[str]
    aligned: list[re.Pattern[str]]
    rivals: list[re.Pattern[str]] | None = None


def _normal(path: str) -> str:
    """Return a path without the slash at its end, which many routers do not look at."""
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def _may_meet(own: str, other: Route) -> bool:
    """Return whether two routes could have a request in common; only the texts before any variable are compared."""
    ours, theirs = own.partition("{")[0].lower(), other.path.partition("{")[0].lower()
    return ours.startswith(theirs) or theirs.startswith(ours)


def _is_more_literal(own: str, other: str) -> bool:
    """Return whether another route fits some values of one step each, and has text where this one has a variable."""
    ours, theirs = own.lower().split("/"), _normal(other).lower().split("/")
    if len(ours) != len(theirs):
        return False
    pairs = list(zip(ours, theirs, strict=True))
    if any(one != another and "{" not in one and "{" not in another for one, another in pairs):
        return False
    return any("{" in one and _VARIABLE.sub("", another) != "" for one, another in pairs)


def _written(text: str) -> str:
    """Return text of a path as `ferrule.expose.requests.build` writes it."""
    return quote(text, safe=PATH_CHARS)


def _pattern(path: str, long: frozenset[str], flags: int, text_of: Callable[[str], str]) -> re.Pattern[str]:
    """Return a pattern of a path, with one group for each variable."""
    steps: list[str] = []
    for step in path.split("/"):
        parts = _VARIABLE.split(step)
        wide = [part in long for part in parts]
        if len(parts) // 2 > _MAX_VARIABLES_IN_STEP:
            parts, wide = [parts[0], "", parts[-1]], [False, any(wide), False]
        steps.append(
            "".join(
                re.escape(text_of(part)) if index % 2 == 0 else "(.+)" if wide[index] else "([^/]+)"
                for index, part in enumerate(parts)
            )
        )
    return re.compile("/".join(steps), flags)


def _as_read(encoded: str, own: re.Pattern[str], slash: str = "/") -> tuple[str, list[tuple[int, int]]]:
    """Return a path as a router may read it, decoded, and where values stand in it.

    Args:
        encoded: the path, percent-encoded.
        own: the pattern of its route.
        slash: stands for a slash that was encoded.
    """
    encoded = _normal(encoded)
    match = own.fullmatch(encoded)
    if match is None:  # it was made in another way, so that all of it may be values
        decoded = unquote(encoded)
        return decoded, [(0, len(decoded))]
    path = ""
    values: list[tuple[int, int]] = []
    end = 0
    for number in range(1, own.groups + 1):
        path += unquote(encoded[end : match.start(number)])
        value = unquote(match[number].replace("%2F", slash).replace("%2f", slash))
        if slash == "/":
            value = _SLASHES.sub("/", value)
            value = value.removeprefix("/") if path.endswith("/") else value
        values.append((len(path), len(path) + len(value)))
        path += value
        end = match.end(number)
    return _normal(path + unquote(encoded[end:])), values


def _claims(rival: re.Pattern[str], path: str, values: list[tuple[int, int]]) -> bool:
    """Return whether another route fits a path and has text of its own where the path has a value."""
    match = rival.fullmatch(path)
    if match is None:
        return False
    theirs = [match.span(number) for number in range(1, rival.groups + 1)]
    return not all(
        any(start <= first and min(last, len(path)) <= end for start, end in theirs) for first, last in values
    )


def by_router(
    route_at: Callable[[str, str], str | None], has_route: Callable[[str, str], bool]
) -> Callable[[ApiRequest], bool]:
    """Return a function like `Routes.names_another` that asks an application's own router.

    Args:
        route_at: returns the path, with variables in braces, of what gets a request of a method and a decoded path;
            ``None`` where nothing does, or it is not known.
        has_route: returns whether there is a route of a method and a path, with variables in braces. A description may
            have other names of variables; where it has the router's own, ``/{number}`` is not ``/{name}``.
    """

    def names_another(request: ApiRequest) -> bool:
        found = route_at(request.method, unquote(request.path))
        if found is None or found == request.route:
            return False
        return not same_route(found, request.route) or has_route(request.method, request.route)

    return names_another


class CheckedCaller:
    """Refuses requests that another operation than their own would get; passes the others on.

    Args:
        caller: sends them.
        names_another: returns whether another operation would get a request.
    """

    def __init__(self, caller: Caller, names_another: Callable[[ApiRequest], bool]) -> None:
        self._caller = caller
        self._names_another = names_another

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`.

        Raises:
            CallerUnavailable: another operation would get it, or its path is too long.
        """
        if "{" in request.route:
            if len(request.path) > MAX_PATH_CHARS:
                raise CallerUnavailable(f"the values in the path are longer than {MAX_PATH_CHARS:,} characters")
            if self._names_another(request):
                raise CallerUnavailable(NAMES_ANOTHER_OPERATION)
        return await self._caller.call(request, origin, max_bytes=max_bytes)

    async def aclose(self) -> None:
        """Close the other caller."""
        await self._caller.aclose()
