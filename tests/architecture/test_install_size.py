"""What `pip install ferrule` brings: few distributions and few megabytes, so that containers start and audits end."""

from __future__ import annotations

import marshal
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

MAX_DISTRIBUTIONS = 20
MAX_MEGABYTES = 45
MEGABYTE = 1_000_000  # the stricter of the two readings
MAX_COMPILED_MEGABYTES = 58
"""With the bytecode that pip adds to what is promised; other installers add none."""


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


def _files_of(installed: Distribution) -> Iterator[Path]:
    for file in installed.files or ():
        path = Path(str(file.locate()))
        if path.suffix == ".pth" and path.stat().st_size < 4096:
            # An editable install records only a pointer to the source tree.
            yield from (entry for entry in Path(path.read_text().strip()).rglob("*") if entry.is_file())
        elif path.is_file():
            yield path


def _compiled_bytes(path: Path) -> int:
    """Bytes of the bytecode that pip would put beside a source file."""
    if path.suffix != ".py":
        return 0
    try:
        return 16 + len(marshal.dumps(compile(path.read_bytes(), str(path), "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return 0  # a template, or for another Python


@pytest.fixture(scope="module")
def installed() -> dict[str, Distribution]:
    """The distributions that a plain install needs."""
    return closure_of("ferrule")


def test_a_plain_install_is_few_distributions(installed: dict[str, Distribution]) -> None:
    """Each one more is one more thing to trust, to pin and to download at a cold start."""
    assert len(installed) <= MAX_DISTRIBUTIONS, sorted(installed)
    assert {"ferrule", "msgspec", "anyio", "uvicorn"} <= set(installed)


def test_a_plain_install_is_few_megabytes(installed: dict[str, Distribution]) -> None:
    """Counted file by file from what was recorded: what a download unpacks to, and with bytecode, which pip adds."""
    plain: dict[str, int] = {}
    compiled: dict[str, int] = {}
    for name, dist in installed.items():
        files = [path for path in _files_of(dist) if path.suffix != ".pyc"]
        plain[name] = sum(path.stat().st_size for path in files)
        compiled[name] = plain[name] + sum(_compiled_bytes(path) for path in files)
    assert sum(plain.values()) <= MAX_MEGABYTES * MEGABYTE, sorted(plain.items(), key=lambda item: -item[1])
    assert sum(compiled.values()) <= MAX_COMPILED_MEGABYTES * MEGABYTE, sorted(
        compiled.items(), key=lambda item: -item[1]
    )


def test_a_plain_install_brings_no_extra(installed: dict[str, Distribution]) -> None:
    """What is optional must stay so."""
    assert not {"pydantic", "rich", "redis", "cryptography", "opentelemetry-api", "toons"} & set(installed)
