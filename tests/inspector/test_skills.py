"""Skills for the page: what a list says without reading a file, and files that are shown only if they are verified."""

from __future__ import annotations

import builtins
from typing import Any, cast

import pytest

from ferrule import Client
from ferrule.inspector.feed import Feed
from ferrule.inspector.jobs import Job, Jobs
from ferrule.inspector.trace import MessageStore
from ferrule.kernel.server import Server
from ferrule.wire.codec import decode
from tests.inspector.servers.forger import ENTRY, FILES, MARKUP, SKILL, app

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
DIGESTS = {file["uri"]: file["digest"] for file in ENTRY["resources"]}


async def run(client: Client, op: str, **params: Any) -> Job:
    """The job of an operation, ended."""
    jobs = Jobs(Feed(), MessageStore())
    job = jobs.begin("job", "main", op, params)
    await jobs.run(job, cast("Any", client))
    return job


async def read(client: Client, uri: str) -> Job:
    """The job that reads a file of the forged skill, as the page shows it."""
    return await run(client, "skill_file", skill=SKILL, uri=uri, digest=DIGESTS[uri])


@ERAS
async def test_the_list_has_the_files_of_each_skill(mode: str) -> None:
    """With path, digest and size; a dynamic skill has none."""
    async with Client(app, mode=mode) as client:
        forged, made = decode((await run(client, "skills")).outcome)
    assert (forged["name"], forged["description"], forged["frontmatter"]) == ("forged", MARKUP, ENTRY["frontmatter"])
    assert [file["path"] for file in forged["files"]] == ["SKILL.md", "<b>.md", "logo.png", "changed.md"]
    assert forged["files"][0] == {"path": "SKILL.md", **ENTRY["resources"][0]}
    assert (made["name"], made["files"], made["declined"]) == ("made", None, None)


@ERAS
async def test_a_verified_file_is_text_or_bytes(mode: str) -> None:
    async with Client(app, mode=mode) as client:
        text, picture = [decode((await read(client, uri)).outcome) for uri in (SKILL, "skill://forged/logo.png")]
        made = await run(client, "skill_file", skill="skill://made/SKILL.md", uri="skill://made/SKILL.md", digest=None)
    assert (text["text"], text["digest"], text["isVerified"]) == (FILES[SKILL].decode(), DIGESTS[SKILL], True)
    assert (picture["mimeType"], picture["size"], "text" in picture) == ("image/png", 5, False)
    assert decode(made.outcome)["isVerified"] is False


@ERAS
async def test_a_file_that_is_not_as_described_is_not_shown(mode: str) -> None:
    """The other files of the skill can still be read."""
    async with Client(app, mode=mode) as client:
        failed = await read(client, "skill://forged/changed.md")
        other = await read(client, SKILL)
    assert (failed.state, failed.outcome) == ("failed", b"null")
    assert failed.error.endswith("skill://forged/changed.md has another digest than by the entry")
    assert other.state == "done"


async def test_a_file_is_compared_with_the_digest_on_the_page() -> None:
    """The entry may have changed since the list was loaded."""
    async with Client(app) as client:
        failed = await run(client, "skill_file", skill=SKILL, uri=SKILL, digest=f"sha256:{'0' * 64}")
    assert (failed.state, failed.outcome) == ("failed", b"null")
    assert "reload the list" in failed.error


async def test_without_pyyaml_a_read_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frontmatter of ``SKILL.md`` cannot be compared without it."""
    known = builtins.__import__

    def refuse(name: str, *others: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return known(name, *others)

    monkeypatch.setattr(builtins, "__import__", refuse)
    async with Client(app) as client:
        failed = await read(client, SKILL)
    assert failed.state == "failed"
    assert "ferrule[skills]" in failed.error


async def test_a_server_without_skills_is_not_asked() -> None:
    async with Client(Server("plain")) as client:
        failed = await run(client, "skills")
    assert failed.state == "failed"
    assert "does not offer the extension" in failed.error
