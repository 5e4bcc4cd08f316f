"""What a server with skills answers, in both eras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.auth.server.refusals import InsufficientScope
from ferrule.errors import RegistrationError
from ferrule.extensions.skills import Skills
from ferrule.protocol.caching import CacheHint
from ferrule.protocol.skills import digest_of, read_frontmatter
from tests.app.scenarios.test_unauthorized_notifications import ADA, BOB, From
from tests.app.support import ask
from tests.extensions.skills.support import add_skill

pytestmark = pytest.mark.anyio

ID = "io.modelcontextprotocol/skills"
ERAS = pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two skills, one of them with files."""
    skill = add_skill(tmp_path, "acme/refunds")
    (skill / "templates" / "regional").mkdir(parents=True)
    (skill / "templates" / "letter é.md").write_text("Dear", encoding="utf-8")
    (skill / "templates" / "logo.png").write_bytes(b"\x89PNG\0")
    (skill / "templates" / "regional" / "eu.txt").write_text("EU", encoding="utf-8")
    (skill / "empty").mkdir()
    add_skill(tmp_path, "git-workflow", released="2026-11-28", stable="yes", count="1")
    return tmp_path


def server(folder: Path, **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("x", **options)
    app.add_skills(folder)
    return app


@ERAS
async def test_entries_describe_every_file_and_the_frontmatter_as_written(folder: Path, mode: str) -> None:
    """An entry is all that a host needs to present, approve and verify a skill ("Skill Entries")."""
    async with Client(server(folder), mode=mode) as client:
        assert client.server_capabilities["extensions"] == {ID: {"directoryRead": True}}
        assert client.server_capabilities.resources is not None
        result = await client.request("skills/list")
        refunds, git = result["skills"]
        root = "skill://acme/refunds"
        assert [file["uri"] for file in refunds["resources"]] == [
            f"{root}/SKILL.md",
            f"{root}/templates/letter%20%C3%A9.md",
            f"{root}/templates/logo.png",
            f"{root}/templates/regional/eu.txt",
        ]
        assert refunds["resources"][2] == {
            "uri": f"{root}/templates/logo.png",
            "digest": digest_of(b"\x89PNG\0"),
            "size": 5,
        }
        assert git["frontmatter"] == {
            "name": "git-workflow",
            "description": "What it does",
            "released": "2026-11-28",
            "stable": "yes",
            "count": 1,
        }
        assert (await client.request("skills/get", {"uri": git["uri"]}))["skill"] == git
        if client.is_modern:
            assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
        else:
            assert not {"resultType", "ttlMs", "cacheScope"} & result.keys()


@ERAS
async def test_files_are_resources_for_clients_without_the_extension(folder: Path, mode: str) -> None:
    """To them ``skill://`` is an ordinary URI ("Resource Metadata")."""
    async with Client(server(folder), mode=mode) as client:
        listed = {resource.uri: resource for resource in await client.list_resources()}
        main = listed["skill://acme/refunds/SKILL.md"]
        assert (main.name, main.description, main.mime_type) == ("refunds", "What it does", "text/markdown")
        assert listed["skill://acme/refunds/templates/regional/eu.txt"].mime_type == "text/plain"
        for entry in (await client.request("skills/list"))["skills"]:
            for file in entry["resources"]:
                contents = (await client.read_resource(file["uri"])).contents[0]
                assert contents.uri == file["uri"]
                if contents.text is not None:
                    assert digest_of(contents.text.encode()) == file["digest"]


@ERAS
async def test_directories_show_their_direct_children(folder: Path, mode: str) -> None:
    """Every directory level of a skill namespace is a directory ("Directory Resources")."""
    async with Client(server(folder), mode=mode) as client:

        async def names(uri: str) -> dict[str, str | None]:
            return {child.name: child.mime_type for child in await client.read_directory(uri)}

        directory = "inode/directory"
        assert await names("skill://acme") == {"refunds": directory}
        assert await names("skill://acme/refunds") == {
            "SKILL.md": "text/markdown",
            "empty": directory,
            "templates": directory,
        }
        assert set(await names("skill://acme/refunds/templates")) == {"letter é.md", "logo.png", "regional"}
        assert await names("skill://acme/refunds/empty") == {}
        for wrong in ("skill://acme/refunds/SKILL.md", "skill://acme/refunds/", "skill://nothing", "skill:", ""):
            with pytest.raises(MCPError) as caught:
                await client.read_directory(wrong)
            assert caught.value.code == -32602


@ERAS
async def test_what_is_no_skill_is_refused(folder: Path, mode: str) -> None:
    """-32602, the code of unknown resources in the modern era ("Error Handling")."""
    async with Client(server(folder), mode=mode) as client:
        for uri in ("skill://nothing/SKILL.md", "skill://acme/refunds/templates/logo.png", "skill://acme/refunds"):
            with pytest.raises(MCPError) as caught:
                await client.request("skills/get", {"uri": uri})
            assert caught.value.code == -32602
        with pytest.raises(MCPError) as caught:
            await client.request("skills/list", {"cursor": "made up"})
        assert caught.value.code == -32602


async def test_pages_of_skills_and_of_directories(tmp_path: Path) -> None:
    """An entry is never split, and each is on one page."""
    for number in range(5):
        add_skill(tmp_path, f"s{number}")
    async with Client(server(tmp_path, page_size=2)) as client:
        pages: list[list[str]] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await client.request("skills/list", cursor)
            pages.append([skill["frontmatter"]["name"] for skill in page["skills"]])
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert pages == [["s0", "s1"], ["s2", "s3"], ["s4"]]
        assert len(await client.list_skills()) == 5
        assert len((await client.request("resources/directory/read", {"uri": "skill://s0"}))["resources"]) == 1


async def test_cache_hints_are_the_servers(folder: Path) -> None:
    """A list of skills is cacheable like any other list."""
    hints = {"skills/list": CacheHint(5000, "public")}
    async with Client(server(folder, cache_hints=hints)) as client:
        found = await client.request("skills/list")
        assert (found["ttlMs"], found["cacheScope"]) == (5000, "public")


async def test_an_unlisted_skill_is_served_to_those_who_know_its_uri(tmp_path: Path) -> None:
    """A server answers for every skill it serves, listed or not ("Getting a Skill")."""
    add_skill(tmp_path / "open", "public-skill")
    add_skill(tmp_path / "more", "quiet-skill")
    app = server(tmp_path / "open")
    app.add_skills(tmp_path / "more", prefix="internal", listed=False)
    async with Client(app) as client:
        assert [skill.name for skill in await client.list_skills()] == ["public-skill"]
        assert [each.uri for each in await client.list_resources()] == ["skill://public-skill/SKILL.md"]
        quiet = await client.get_skill("skill://internal/quiet-skill/SKILL.md")
        assert "# Do it" in await quiet.load()


@ERAS
async def test_a_function_makes_a_dynamic_skill(mode: str) -> None:
    """No stable digests can be published for it, which the entry says ("Resources")."""
    app: MCPServer[Any] = MCPServer("x")

    @app.skill("daily", prefix="reports", frontmatter={"metadata": {"since": "2026-01-01", "on": "yes"}})
    async def report(ctx: Context) -> str:
        """Assemble today's
        report: from live data.

        Not part of the description.
        """
        return f"# {ctx.method}"

    @app.skill
    def plain_report() -> str:
        """Without data."""
        return "plain"

    async with Client(app, mode=mode) as client:
        daily, plain = await client.list_skills()
        assert (daily.uri, daily.is_dynamic) == ("skill://reports/daily/SKILL.md", True)
        assert daily.frontmatter == {
            "name": "daily",
            "description": "Assemble today's report: from live data.",
            "metadata": {"since": "2026-01-01", "on": "yes"},
        }
        text = await daily.load()
        assert text.endswith("# resources/read")
        assert read_frontmatter(text) == daily.frontmatter
        assert plain.name == "plain-report"
        assert (await plain.load()).endswith("plain")
        assert [child.name for child in await client.read_directory("skill://reports/daily")] == ["SKILL.md"]
    with pytest.raises(RegistrationError, match="needs a description"):
        app.skill("other")(lambda: "x")
    with pytest.raises(RegistrationError, match="already a resource"):
        app.skill("daily", prefix="reports", description="x")(report)


async def test_disabled_files_are_not_described(folder: Path) -> None:
    """An entry lists what can be read."""
    app = server(folder)
    app.disable(resource="skill://git-workflow/SKILL.md")
    app.disable(resource="skill://acme/refunds/templates/logo.png")
    async with Client(app) as client:
        (refunds,) = await client.list_skills()
        assert "templates/logo.png" not in refunds.paths


@pytest.mark.parametrize("prefix", [None, "shop"])
@pytest.mark.parametrize("is_late", [False, True])
async def test_skills_of_a_mounted_server_are_served_under_their_uris_there(
    folder: Path, prefix: str | None, is_late: bool
) -> None:
    """The name stays the last segment of the path, whatever is before it."""
    inner: MCPServer[Any] = MCPServer("inner")
    outer: MCPServer[Any] = MCPServer("outer")
    if is_late:
        outer.mount(inner, prefix=prefix)
    inner.add_skills(folder)
    if not is_late:
        outer.mount(inner, prefix=prefix)
    async with Client(outer) as client:
        start = "skill://" if prefix is None else f"skill://{prefix}/"
        skills = await client.list_skills()
        assert [skill.uri for skill in skills] == [f"{start}acme/refunds/SKILL.md", f"{start}git-workflow/SKILL.md"]
        for skill in skills:
            await skill.load()
            for path in skill.paths:
                await skill.read(path)


async def test_skills_of_the_same_name_differ_by_prefix(tmp_path: Path) -> None:
    """Two folders may have skills of the same name, and not of the same URI."""
    add_skill(tmp_path / "a", "refunds")
    add_skill(tmp_path / "b", "refunds")
    app = server(tmp_path / "a")
    with pytest.raises(RegistrationError, match="There is already a resource"):
        app.add_skills(tmp_path / "b")
    app.add_skills(tmp_path / "b", prefix="acme/support")
    for wrong in ("/a", "a//b", "../x", "a/."):
        with pytest.raises(RegistrationError, match="is not a path of names"):
            app.add_skills(tmp_path / "b", prefix=wrong)
    async with Client(app) as client:
        skills = await client.list_skills()
        assert [skill.name for skill in skills] == ["refunds", "refunds"]
        assert [skill.label for skill in skills] == ["x/refunds", "x/acme/support/refunds"]


def test_an_option_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """As for every other component."""
    app: MCPServer[Any] = MCPServer("x")
    with pytest.raises(TypeError, match=r"add_skills\(\) has no option"):
        app.add_skills(tmp_path, tag="x")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    with pytest.raises(RuntimeError, match="Add Skills to a server first"):
        Skills().add_folder(tmp_path)


async def test_a_skill_that_is_hidden_from_a_client_does_not_exist_for_it(tmp_path: Path) -> None:
    """Neither in the lists, nor by its URI, nor in a directory; and no shared cache may keep the lists."""
    add_skill(tmp_path / "open", "public-skill")
    add_skill(tmp_path / "secret", "secret-skill")
    app = server(tmp_path / "open", cache_hints={"*": CacheHint(1000, "public")})
    app.add_skills(tmp_path / "secret", prefix="team", allow=lambda principal: principal == ADA)
    for principal, expected in ((ADA, ["public-skill", "secret-skill"]), (BOB, ["public-skill"])):
        listed = await ask(app, "skills/list", dispatch=From(principal))
        assert [skill["frontmatter"]["name"] for skill in listed["skills"]] == expected
        assert listed["cacheScope"] == "private"
    uri = "skill://team/secret-skill/SKILL.md"
    assert (await ask(app, "skills/get", {"uri": uri}, dispatch=From(ADA)))["skill"]["uri"] == uri
    for method, params in (
        ("skills/get", {"uri": uri}),
        ("resources/read", {"uri": uri}),
        ("resources/directory/read", {"uri": "skill://team"}),
        ("resources/directory/read", {"uri": "skill://team/secret-skill"}),
    ):
        with pytest.raises(MCPError) as caught:
            await ask(app, method, params, dispatch=From(BOB))
        assert caught.value.code == -32602


async def test_a_skill_whose_scopes_are_missing_is_listed_and_not_read(tmp_path: Path) -> None:
    """As for any component: the client may step up."""
    add_skill(tmp_path, "notes-skill")
    app: MCPServer[Any] = MCPServer("x")
    app.add_skills(tmp_path, scopes="notes")
    assert len((await ask(app, "skills/list", dispatch=From(BOB)))["skills"]) == 1
    uri = {"uri": "skill://notes-skill/SKILL.md"}
    with pytest.raises(InsufficientScope):
        await ask(app, "resources/read", uri, dispatch=From(BOB))
    assert (await ask(app, "resources/read", uri, dispatch=From(ADA)))["contents"]


def test_what_does_not_use_skills_does_not_load_them() -> None:
    """Neither a server with its tools and resources, nor a client that calls it."""
    program = """
import asyncio, sys
from ferrule import Client, MCPServer
app = MCPServer("x")
app.add_tool(lambda: "a", name="a")
app.add_resource("data://x", lambda: "x")
async def main():
    for mode in ("2026-07-28", "2025-11-25"):
        async with Client(app, mode=mode) as client:
            await client.list_tools(), await client.call_tool("a"), await client.list_resources()
            await client.read_resource("data://x")
asyncio.run(main())
print([name for name in sys.modules if "skills" in name or name.endswith("yaml_data") or name == "yaml"])
print(len(app.resources.fixed.before_read), app.lowlevel.extensions)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=100, check=True
    )
    assert done.stdout.split("\n")[:2] == ["[]", "0 {}"]
