"""What a new configuration changes in a group: only the entries that differ are touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ferrule.client.config import read_target
from ferrule.client.config_settings import ServerSettings
from ferrule.client.targets import GroupTarget
from ferrule.wire.json_types import is_mapping

__all__ = ["GroupDifference", "ReloadReport", "difference", "read_group_target"]


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What `ClientGroup.reload` did, by the names of the servers.

    Attributes:
        added, removed, changed, unchanged: the servers of the new configuration, and those it no longer has.
        refused: name → the error of an entry that is malformed; a server that had a usable entry keeps it.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: Mapping[str, Exception] | None = None


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """The servers to add, to close and to leave.

    Attributes:
        start: name → target of servers that are new or have another entry, in the order of the configuration.
        stop: names of servers that are gone or have another entry.
        order: the names of all servers afterwards.
        report: the same for the program.
    """

    start: Mapping[str, Any]
    stop: tuple[str, ...]
    order: tuple[str, ...]
    report: ReloadReport


def difference(old: Mapping[str, tuple[Any, ServerSettings]], new: GroupTarget) -> GroupDifference:
    """Compare the servers of a group with a configuration.

    Args:
        old: name → target and settings of the servers now; the target of a malformed entry is its error.
        new: the configuration.
    """
    start: dict[str, Any] = {}
    kept: list[str] = []
    refused: dict[str, Exception] = {}
    for name, target in new.servers.items():
        settings = new.settings.get(name, ServerSettings())
        was = old.get(name)
        if isinstance(target, Exception):
            refused[name] = target
            if was is not None and not isinstance(was[0], Exception):
                kept.append(name)
                continue
        elif was is not None and was == (target, settings):
            kept.append(name)
            continue
        start[name] = target
    removed = tuple(name for name in old if name not in new.servers)
    changed = tuple(name for name in start if name in old)
    report = ReloadReport(
        added=tuple(name for name in start if name not in old),
        removed=removed,
        changed=changed,
        unchanged=tuple(kept),
        refused=refused,
    )
    return GroupDifference(start, (*removed, *changed), tuple(new.servers), report)


def read_group_target(target: Any) -> GroupTarget:
    """Return the servers of a configuration, or of a mapping name → target of a client; errors stay in their entries.

    Raises:
        TypeError, ValueError, OSError: the configuration as a whole cannot be read.
    """
    if isinstance(target, GroupTarget):
        return target
    keys = {"mcpServers", "servers", "command", "url", "httpUrl"}
    if not is_mapping(target) or keys & set(target):
        found = read_target(target)
        return found if isinstance(found, GroupTarget) else GroupTarget({"server": found})
    entries = {name: entry for name, entry in target.items() if is_mapping(entry)}
    read = read_target({"mcpServers": entries}) if entries else GroupTarget({})
    assert isinstance(read, GroupTarget)
    servers = {name: read.servers[name] if name in entries else _read(name, entry) for name, entry in target.items()}
    return GroupTarget(servers, settings=read.settings)


def _read(name: str, entry: Any) -> Any:
    """Return the target of one server, or the error that reading it raised."""
    try:
        found = read_target(entry)
        if isinstance(found, GroupTarget):
            raise ValueError("a group is not a member of another one")
        return replace(found, known_as=name)
    except (TypeError, ValueError, KeyError, OSError) as error:
        return error
