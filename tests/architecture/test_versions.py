"""Only the revision tables and the era files may look at what a version string says.

Everywhere else a flag of ``Revision`` is asked, of the revision that the connection has. A comparison with a date is
how a library ends up with revision checks in forty places, of which the next revision breaks three; a table taken from
the newest revision is right until there is a newer one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ferrule"
ALLOWED = ("wire/revisions/", "protocol/era.py", "protocol/legacy/", "protocol/inbound.py")

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_VERSION_CONSTANT = re.compile(
    r"(LATEST|OLDEST|MODERN|HANDSHAKE|FIRST)_.*VERSIONS?$|(?!UNSUPPORTED_).*PROTOCOL_VERSIONS?$"
)
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _is_date(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _DATE.fullmatch(node.value) is not None


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _names_a_version(node: ast.AST) -> bool:
    return any(_VERSION_CONSTANT.match(_name_of(part)) for part in ast.walk(node))


def version_comparisons(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and reason of everything that judges a version by its text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            if any(_is_date(part) for operand in operands for part in ast.walk(operand)):
                yield node.lineno, "compared with a date"
            elif any(_names_a_version(operand) for operand in operands):
                yield node.lineno, "compared with a version constant"
            elif any(isinstance(op, _ORDERED) for op in node.ops) and any(
                _name_of(operand).endswith("version") for operand in operands
            ):
                yield node.lineno, "ordered by its text"
        elif isinstance(node, ast.MatchValue) and _is_date(node.value):
            yield node.value.lineno, "matched with a date"
        elif isinstance(node, ast.Dict) and any(key is not None and _is_date(key) for key in node.keys):
            yield node.lineno, "looked up in a table keyed by dates"
        elif (
            isinstance(node, ast.Call)
            and _name_of(node.func) in {"startswith", "endswith"}
            and any(
                isinstance(argument, ast.Constant)
                and isinstance(argument.value, str)
                and argument.value.startswith("202")
                for argument in node.args
            )
        ):
            yield node.lineno, "compared with the beginning of a date"


def _is_fixed_revision(node: ast.AST) -> bool:
    """Whether an expression is one revision chosen when the code was written: by constant, by date, by place."""
    if isinstance(node, ast.IfExp):
        return _is_fixed_revision(node.body) or _is_fixed_revision(node.orelse)
    if isinstance(node, ast.Call) and _name_of(node.func) in {"next", "max", "min"}:
        return any(_name_of(part) == "REVISIONS" for part in ast.walk(node)) and not any(
            isinstance(part, ast.comprehension) and part.ifs for part in ast.walk(node)
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        index: ast.AST | None = node.args[0] if node.args else None
        owner: ast.AST = node.func.value
    elif isinstance(node, ast.Subscript):
        index, owner = node.slice, node.value
    else:
        return False
    if index is None or not any(_name_of(part) == "REVISIONS" for part in ast.walk(owner)):
        return False
    is_place = isinstance(index, ast.UnaryOp) or (isinstance(index, ast.Constant) and isinstance(index.value, int))
    return is_place or _names_a_version(index) or any(_is_date(part) for part in ast.walk(index))


def _imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [name.name for name in node.names] if isinstance(node, ast.Import) else []


def tables_of_a_fixed_revision(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and reason of every table or flag that is not taken from the revision of a connection."""
    fixed = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and _is_fixed_revision(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (
            _is_fixed_revision(node.value) or (isinstance(node.value, ast.Name) and node.value.id in fixed)
        ):
            yield node.lineno, f"`{node.attr}` of a fixed revision"
        elif any(re.search(r"revisions\.r\d{4}_", name) for name in _imported_modules(node)):
            yield getattr(node, "lineno", 0), "imports one revision"


def test_no_table_is_taken_from_a_fixed_revision() -> None:
    """The revision of a connection decides what is allowed, also after a newer one exists."""
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {reason}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.relative_to(SOURCE).as_posix().startswith("wire/revisions/")
        for line, reason in tables_of_a_fixed_revision(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "METHODS = REVISIONS[LATEST_MODERN_VERSION].input_required_methods",
        "METHODS = REVISIONS[MODERN_PROTOCOL_VERSIONS[-1]].cacheable_methods",
        "METHODS = revisions.REVISIONS['2026-07-28'].requests",
        "METHODS = REVISIONS.get(LATEST_MODERN_VERSION).requests",
        "METHODS = list(REVISIONS.values())[-1].requests",
        "METHODS = next(reversed(REVISIONS.values())).requests",
        "newest = REVISIONS[LATEST_MODERN_VERSION]\nMETHODS = newest.requests",
        "spoken = REVISIONS[LATEST_MODERN_VERSION] if revision is None else revision\nok = spoken.has_batches",
        "from ferrule.wire.revisions.r2026_07_28 import REVISION",
    ],
)
def test_the_search_finds_tables_of_a_fixed_revision(source: str) -> None:
    """Each spelling of "the newest" that has been in this package, and those next to it."""
    assert list(tables_of_a_fixed_revision(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "known = ctx.session.connection.revision.requests",
        "known = REVISIONS[ctx.protocol_version].requests",
        "connection = cls(dispatcher, REVISIONS[LATEST_HANDSHAKE_VERSION])",
        "first = next(v for v, revision in REVISIONS.items() if revision.http == 'sessions')",
        "every = frozenset().union(*(r.requests for r in REVISIONS.values()))",
    ],
)
def test_the_search_leaves_alone_the_revision_of_a_connection(source: str) -> None:
    """Looking up what was negotiated, asking all revisions and handing a whole one on are right."""
    assert not list(tables_of_a_fixed_revision(ast.parse(source)))


ERA_READERS = {
    "kernel/connection.py": "a connection is bound to its era, and its classes of channels with it",
    "client/connection/negotiation.py": "finds out the era of a server",
    "client/connection/connector.py": "binds a session to the revision that was negotiated",
    "client/client.py": "`Client.is_modern`, which programs ask",
    "transports/asgi/endpoint.py": "binds a request over HTTP to the endpoint of its era",
    "inspector/connection.py": "tells its page the era, which a user sees",
    "cli/doctor/eras.py": "reports the eras of a server",
    "testing/script.py": "`[modern]` and `[legacy]` in conversation files",
}
"""The modules that read ``is_modern``, and why; everywhere else the fact that is meant is asked by its name."""


def reads_era(tree: ast.AST) -> bool:
    """Return whether code reads the era of a connection."""
    return any(_name_of(node) == "is_modern" for node in ast.walk(tree))


def test_the_era_is_read_only_where_it_is_bound_or_shown() -> None:
    """Elsewhere a difference has a name of its own in the revision tables, which a later revision can set by itself."""
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if reads_era(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert {path for path in found if not path.startswith("wire/revisions/")} == ERA_READERS.keys()
    assert len(ERA_READERS) <= 12


@pytest.mark.parametrize("source", ["if connection.is_modern: pass", "is_modern = x", "def f(): return s.is_modern"])
def test_the_search_finds_readers_of_the_era(source: str) -> None:
    """A rule that cannot fail protects nothing."""
    assert reads_era(ast.parse(source))


def test_no_version_is_compared_outside_the_tables() -> None:
    """The next revision must cost one delta file, not a search through the source."""
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {reason}"
        for path in sorted(SOURCE.rglob("*.py"))
        if not path.relative_to(SOURCE).as_posix().startswith(ALLOWED)
        for line, reason in version_comparisons(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "if version == '2025-11-25': pass",
        "if v in ('2024-11-05', '2025-03-26'): pass",
        "ok = ctx.protocol_version >= other",
        "ok = LATEST_MODERN_VERSION == version",
        "ok = version in HANDSHAKE_PROTOCOL_VERSIONS",
        "match version:\n    case '2025-06-18': pass",
        "table = {'2025-06-18': 1}[version]",
        "ok = version.startswith('2025-')",
    ],
)
def test_the_search_finds_each_kind(source: str) -> None:
    """A rule that cannot fail guards nothing."""
    assert list(version_comparisons(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "ok = header != session.protocol_version",
        "revision = REVISIONS.get(version)",
        "ok = revision.is_modern",
        "mode: Literal['auto', '2026-07-28'] = 'auto'",
        "ok = info.version is None",
        "ok = code == JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION",
    ],
)
def test_the_search_leaves_alone_what_is_no_judgement(source: str) -> None:
    """Handing a version on, looking its flags up and holding two of them together is what the rest should do."""
    assert not list(version_comparisons(ast.parse(source)))
