"""What `pip install ferrule` brings: few distributions and few megabytes, so that containers start and audits end."""

from __future__ import annotations

import re
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

MAX_DISTRIBUTIONS = 20
MAX_MEGABYTES = 45
MEGABYTE = 1_000_000  # the stricter of the two readings


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure_of(name: str) -> dict[str, Distribution]:
    """A distribution and all that it requires without extras, as installed here and by its own metadata."""
    found: dict[str, Distribution] = {}
    pending = [(name, frozenset[str]())]
    environment: dict[str, str] = {**default_environment()}  # pyright: ignore[reportAssignmentType]
    while pending:
        current, extras = pending.pop()
        if _normal(current) in found and not extras:
            continue
        installed = distribution(current)
        found[_normal(current)] = installed
        for text in installed.requires or ():
            requirement = Requirement(text)
            wanted = requirement.marker is None or any(
                requirement.marker.evaluate({**environment, "extra": extra}) for extra in extras or {""}
            )
            if wanted:
                pending.append((requirement.name, frozenset(requirement.extras)))
    return found


def _is_installed(entry: Path) -> bool:
    """Whether an install would have the file: no bytecode that another interpreter left in the source tree."""
    return entry.is_file() and (entry.suffix != ".pyc" or f".{sys.implementation.cache_tag}." in entry.name)


def _bytes_of(installed: Distribution) -> int:
    total = 0
    for file in installed.files or ():
        path = Path(str(file.locate()))
        if path.is_file():
            total += path.stat().st_size
        if path.suffix == ".pth" and path.stat().st_size < 4096:
            # An editable install records only a pointer to the source tree.
            source = Path(path.read_text().strip())
            total += sum(entry.stat().st_size for entry in source.rglob("*") if _is_installed(entry))
    return total


@pytest.fixture(scope="module")
def installed() -> dict[str, Distribution]:
    """The distributions that a plain install needs."""
    return closure_of("ferrule")


def test_a_plain_install_is_few_distributions(installed: dict[str, Distribution]) -> None:
    """Each one more is one more thing to trust, to pin and to download at a cold start."""
    assert len(installed) <= MAX_DISTRIBUTIONS, sorted(installed)
    assert {"ferrule", "msgspec", "anyio", "uvicorn"} <= set(installed)


def test_a_plain_install_is_few_megabytes(installed: dict[str, Distribution]) -> None:
    """Counted file by file, compiled bytecode included, from what pip recorded."""
    sizes = {name: _bytes_of(dist) / MEGABYTE for name, dist in installed.items()}
    assert sum(sizes.values()) <= MAX_MEGABYTES, sorted(sizes.items(), key=lambda item: -item[1])


def test_a_plain_install_brings_no_extra(installed: dict[str, Distribution]) -> None:
    """What is optional must stay so."""
    assert not {"pydantic", "rich", "redis", "cryptography", "opentelemetry-api", "toons"} & set(installed)
