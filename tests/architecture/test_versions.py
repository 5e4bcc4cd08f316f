"""Only the revision tables and the era files may look at what a version string says.

Everywhere else a flag of ``Revision`` is asked. A comparison with a date is how a library ends up with revision checks
in forty places, of which the next revision breaks three.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ferrule"
ALLOWED = ("wire/revisions/", "protocol/era.py", "protocol/handshake.py", "protocol/inbound.py")

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
