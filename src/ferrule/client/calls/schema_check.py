"""Validates values against a JSON Schema that a server sent, with bounded work.

``jsonschema-rs`` validates. Its work is estimated first (`ferrule.protocol.schema_work`), regular expressions run in an
engine with linear time where it supports them, and all problems are listed for small values only: a list of all took
12 s and 1 GB for 200,000 wrong entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from ferrule.protocol.schema_work import SchemaTooCostly, SchemaWork

__all__ = ["SchemaCheck"]

_MAX_EXPLAINED: Final = 10_000
"""Maximum number of evaluations for which a problem is described: a failed choice describes all of its branches
(7 kB each, measured)."""
_MAX_LISTED: Final = 1_000
"""As `_MAX_EXPLAINED`, for a value of which all problems are listed."""
_PATTERN_BYTES: Final = 256 * 1024
"""Maximum size of one compiled regular expression, and of its memory while it runs, in bytes each."""
_MAX_BACKTRACKS: Final = 10_000
"""Maximum number of backtracking steps of a regular expression with look-around or back-references."""


class SchemaCheck:
    """One compiled schema.

    Raises:
        ImportError: jsonschema-rs is not installed.
        SchemaTooCostly: the schema is too large, or refers to itself without end.
        ValueError: it is not a JSON Schema, or refers to a document that is not in it.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        import jsonschema_rs

        self._work = SchemaWork(schema)
        linear = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
        try:
            self._validator = jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=linear)
        except ValueError:
            backtracking = jsonschema_rs.FancyRegexOptions(
                backtrack_limit=_MAX_BACKTRACKS, size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES
            )
            self._validator = jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=backtracking)

    def problem(self, value: Any) -> tuple[str, str] | None:
        """Return path and description of the first problem; ``None`` if the value fits.

        Raises:
            SchemaTooCostly: the validation takes too many evaluations, or the value is nested too deep.
        """
        found = self.problems(value, 1)
        return (path_text(found[0][0]), found[0][1]) if found else None

    def problems(self, value: Any, most: int) -> list[tuple[list[str | int], str]]:
        """Return path and description of at most ``most`` problems; of a large value, only of the first one.

        Raises:
            SchemaTooCostly: the validation takes too many evaluations, or the value is nested too deep.
        """
        import jsonschema_rs

        evaluations = self._work.evaluations(value)
        try:
            if self._validator.is_valid(value):
                return []
            if evaluations > _MAX_EXPLAINED:
                return [([], "it does not fit (too large to say where)")]
            if most > 1 and evaluations <= _MAX_LISTED:
                errors = islice(self._validator.iter_errors(value), most)
                return [(list(error.instance_path), error.message) for error in errors]
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return [(list(error.instance_path), error.message)]
        except ValueError as error:  # its limit of nesting
            raise SchemaTooCostly(f"the value is nested too deep for the validator ({error})") from error
        return []


def path_text(parts: Iterable[Any]) -> str:
    """Return a path as errors show it: ``$.a[0]``."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _refuse(uri: str) -> Any:
    raise ValueError(f"The reference {uri} is not fetched")
