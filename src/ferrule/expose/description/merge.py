"""Merges descriptions, for applications that are mounted in an application."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from ferrule.expose.description.names import clean, operation_names, path_name, shorten
from ferrule.expose.description.reader import Description
from ferrule.expose.operations import Operation

__all__ = ["merge_descriptions", "renamed", "with_slashes"]


def renamed(description: Description, names: Mapping[str, str]) -> Description:
    """Return a description whose operations have other names.

    Args:
        description: the description.
        names: new names by operation id; a name that another operation has is ignored.
    """
    wanted = [names.get(operation.operation_id or "", operation.name) for operation in description.operations]
    taken = Counter(shorten(clean(name), name).lower() for name in wanted)
    made: list[Operation] = []
    for operation, name in zip(description.operations, wanted, strict=True):
        found = shorten(clean(name), name)
        made.append(replace(operation, name=found) if found and taken[found.lower()] == 1 else operation)
    return replace(description, operations=tuple(made))


def with_slashes(description: Description, names_of: Callable[[Operation], Collection[str]]) -> Description:
    """Return a description in which some path parameters may have several path segments.

    Args:
        description: the description.
        names_of: returns the names of these parameters of an operation.
    """

    def changed(operation: Operation) -> Operation:
        several = names_of(operation)
        if not several:
            return operation
        parameters = tuple(
            replace(each, allow_reserved=True) if each.location == "path" and each.name in several else each
            for each in operation.parameters
        )
        return replace(operation, parameters=parameters)

    return replace(description, operations=tuple(changed(operation) for operation in description.operations))


def merge_descriptions(parts: Sequence[tuple[str, Description]]) -> Description:
    """Return one description; each path gets the prefix of its part, and so do names that occur twice.

    Args:
        parts: prefix and description, the main one first.
    """
    if len(parts) == 1 and not parts[0][0]:
        return parts[0][1]
    every = [
        replace(operation, path=prefix + operation.path) for prefix, part in parts for operation in part.operations
    ]
    counts = Counter(operation.name.lower() for operation in every)
    names = operation_names(
        [
            (
                operation.method,
                operation.path,
                operation.name if counts[operation.name.lower()] == 1 else path_name(operation.method, operation.path),
            )
            for operation in every
        ]
    )
    return replace(
        parts[0][1],
        operations=tuple(replace(operation, name=name) for operation, name in zip(every, names, strict=True)),
        skipped=tuple(
            replace(skipped, path=prefix + skipped.path) for prefix, part in parts for skipped in part.skipped
        ),
    )
