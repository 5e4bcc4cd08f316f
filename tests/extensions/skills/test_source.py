"""A folder of skills that changes while the server runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from ferrule import Client, MCPServer
from ferrule.errors import ResourceNotFound, SkillVerificationFailed
from ferrule.extensions.skills import Skills
from tests.extensions.skills.support import add_skill

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def server(folder: Path, clock: Clock, **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("x", extensions=[Skills(clock=clock, watch_s=None, **options)])
    app.add_skills(folder)
    return app


async def names(client: Client) -> list[str]:
    return [skill.name for skill in await client.list_skills()]


async def test_added_changed_and_removed_files_are_served_after_the_next_check(tmp_path: Path) -> None:
    """The author edits the folder, and the server is not restarted."""
    clock = Clock()
    skill = add_skill(tmp_path, "refunds")
    async with Client(server(tmp_path, clock)) as client:
        add_skill(tmp_path, "returns")
        (skill / "policy.md").write_text("policy", encoding="utf-8")
        assert await names(client) == ["refunds"]  # checked a moment ago
        clock.now += 1
        assert await names(client) == ["refunds", "returns"]
        (held,) = [each for each in await client.list_skills() if each.name == "refunds"]
        assert await held.read("policy.md") == b"policy"
        add_skill(tmp_path, "refunds", "Now another")
        (skill / "policy.md").unlink()
        clock.now += 1
        fresh = await client.get_skill("skill://refunds/SKILL.md")
        assert (fresh.description, fresh.paths) == ("Now another", [])
        shutil.rmtree(tmp_path / "returns")
        clock.now += 1
        assert await names(client) == ["refunds"]
        assert [each.description for each in await client.list_resources()] == ["Now another"]


async def test_a_read_of_a_changed_file_makes_the_next_entry_fresh(tmp_path: Path) -> None:
    """A client whose verification fails asks for the entry again, at once."""
    clock = Clock()
    skill = add_skill(tmp_path, "refunds")
    (skill / "policy.md").write_text("old", encoding="utf-8")
    async with Client(server(tmp_path, clock)) as client:
        (held,) = await client.list_skills()
        (skill / "policy.md").write_text("newer", encoding="utf-8")
        with pytest.raises(SkillVerificationFailed):
            await held.read("policy.md")
        await held.refresh()
        assert await held.read("policy.md") == b"newer"
        (skill / "policy.md").unlink()
        with pytest.raises(Exception, match="not found"):
            await held.read("policy.md")
        await held.refresh()
        assert held.paths == []


async def test_listeners_learn_of_changes(tmp_path: Path) -> None:
    """By the notifications of resources, which is what the files are."""
    clock = Clock()
    skill = add_skill(tmp_path, "refunds")
    (skill / "policy.md").write_text("old", encoding="utf-8")
    async with (
        Client(server(tmp_path, clock)) as client,
        client.listen(resources=True, uris=["skill://refunds/policy.md"]) as changes,
    ):
        (skill / "policy.md").write_text("newer", encoding="utf-8")
        clock.now += 1
        await client.list_skills()
        heard: set[str] = set()
        with anyio.fail_after(60):
            async for event in changes:
                heard.add(event.kind)
                if heard == {"resources", "resource"}:
                    break


async def test_the_background_check_needs_no_request(tmp_path: Path) -> None:
    """A client that listens is notified of a change although no client asks for a list."""
    add_skill(tmp_path, "refunds")
    app: MCPServer[Any] = MCPServer("x", extensions=[Skills(watch_s=0.01)])
    inner: MCPServer[Any] = MCPServer("inner")
    inner.add_skills(tmp_path)
    app.mount(inner)
    async with Client(app) as client, client.listen(resources=True) as changes:
        add_skill(tmp_path, "returns")
        with anyio.fail_after(60):
            await changes.__anext__()
        assert "skill://returns/SKILL.md" in {each.uri for each in app.list_resources()}


async def test_what_cannot_be_served_any_more_is_left_out_and_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A half-written file must not end the server, nor be served."""
    clock = Clock()
    skill = add_skill(tmp_path, "refunds")
    async with Client(server(tmp_path, clock)) as client:
        (skill / "SKILL.md").write_text("---\nname: [", encoding="utf-8")
        for _ in range(3):
            clock.now += 1
            assert await names(client) == []
        assert caplog.text.count("are not served until this is mended") == 1
        add_skill(tmp_path, "refunds")
        clock.now += 1
        assert await names(client) == ["refunds"]
        shutil.rmtree(tmp_path)
        clock.now += 1
        assert await names(client) == []


async def test_a_disabled_file_stays_disabled_when_it_changes(tmp_path: Path) -> None:
    """The author has hidden it; a new version is not another file."""
    clock = Clock()
    skill = add_skill(tmp_path, "refunds")
    (skill / "policy.md").write_text("old", encoding="utf-8")
    app = server(tmp_path, clock)
    app.disable(resource="skill://refunds/policy.md")
    app.remove_resource("skill://refunds/SKILL.md")
    async with Client(app) as client:
        (skill / "policy.md").write_text("newer", encoding="utf-8")
        add_skill(tmp_path, "refunds", "changed")
        clock.now += 1
        assert await client.list_resources() == []
        assert await names(client) == []


async def test_a_file_that_became_a_link_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    """It was a file when the folder was checked."""
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    clock = Clock()
    skill = add_skill(tmp_path / "skills", "refunds")
    (skill / "policy.md").write_text("old", encoding="utf-8")
    app = server(tmp_path / "skills", clock)
    (skill / "policy.md").unlink()
    (skill / "policy.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ResourceNotFound):
        await app.read_resource("skill://refunds/policy.md")
    (skill / "policy.md").unlink()
    (skill / "policy.md").write_bytes(b"x" * (17 << 20))
    with pytest.raises(ResourceNotFound):
        await app.read_resource("skill://refunds/policy.md")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
async def test_a_file_that_became_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Opening it would block a thread until somebody writes."""
    skill = add_skill(tmp_path / "skills", "refunds")
    (skill / "policy.md").write_text("old", encoding="utf-8")
    app = server(tmp_path / "skills", Clock())
    (skill / "policy.md").unlink()
    os.mkfifo(skill / "policy.md")
    with pytest.raises(ResourceNotFound):
        await app.read_resource("skill://refunds/policy.md")


async def test_without_a_change_nothing_is_registered_again(tmp_path: Path) -> None:
    """A check of an unchanged folder asks for facts only."""
    clock = Clock()
    add_skill(tmp_path, "refunds")
    app = server(tmp_path, clock)
    before = list(app.resources.fixed)
    changes: list[int] = []
    app.resources.fixed.followers.append(lambda: changes.append(1))
    async with Client(app) as client:
        for _ in range(3):
            clock.now += 1
            await client.list_skills()
    assert list(app.resources.fixed) == before
    assert changes == []


async def test_a_touched_file_is_not_taken_for_a_changed_one(tmp_path: Path) -> None:
    """Its bytes are the same, and a read of it must not make every later request check the folder."""
    clock = Clock()
    skill = add_skill(tmp_path, "refunds")
    app = server(tmp_path, clock)
    async with Client(app) as client:
        (held,) = await client.list_skills()
        os.utime(skill / "SKILL.md", ns=(1, 1))
        clock.now += 1
        await client.list_skills()
        await held.load()
        (source,) = cast("Skills", app.extensions[Skills.identifier]).sources
        assert not source.is_stale


async def test_a_uri_that_is_taken_while_the_server_runs_costs_that_file_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At the start it is refused; later the rest goes on."""
    clock = Clock()
    add_skill(tmp_path, "refunds")
    app = server(tmp_path, clock)
    app.add_resource("skill://returns/SKILL.md", lambda: "taken")
    async with Client(app) as client:
        add_skill(tmp_path, "returns")
        add_skill(tmp_path, "zeta")
        for _ in range(3):
            clock.now += 1
            assert await names(client) == ["refunds", "zeta"]
        assert caplog.text.count("already a resource 'skill://returns/SKILL.md'") == 1
        assert (await client.read_resource("skill://returns/SKILL.md")).contents[0].text == "taken"
