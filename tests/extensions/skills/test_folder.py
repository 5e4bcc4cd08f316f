"""Reading folders of skills: what is found, and what is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.errors import RegistrationError
from ferrule.extensions.skills import SkillFolderError, Skills, folder
from ferrule.extensions.skills.folder import Bounds, FoundSkill, find_skills, read_at_most
from ferrule.protocol.skills import digest_of
from tests.extensions.skills.support import add_skill

LINKS = pytest.mark.skipif(sys.platform == "win32", reason="links need privileges there")


def found_in(folder: Path, **bounds: int) -> list[FoundSkill]:
    return find_skills(folder, Bounds(**bounds), {})


def refusal(folder: Path, **bounds: int) -> str:
    with pytest.raises(SkillFolderError) as caught:
        found_in(folder, **bounds)
    return str(caught.value)


def test_each_folder_with_a_skill_file_is_a_skill_with_all_its_files(tmp_path: Path) -> None:
    """Nested skills are skills of their own, and their files are files of the outer one ("Nested Skills")."""
    outer = add_skill(tmp_path, "acme/refunds", license="MIT")
    add_skill(tmp_path, "acme/refunds/partial")
    (outer / "examples").mkdir()
    (outer / "examples" / "email.md").write_bytes(b"\xef\xbb\xbfDear\r\n")
    (outer / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no skill", encoding="utf-8")
    first, second = found_in(tmp_path)
    assert (first.where, second.where) == ("acme/refunds", "acme/refunds/partial")
    assert list(first.files) == ["SKILL.md", "examples/email.md", "partial/SKILL.md"]
    assert first.frontmatter == {"name": "refunds", "description": "What it does", "license": "MIT"}
    assert first.files["examples/email.md"].digest == digest_of(b"\xef\xbb\xbfDear\r\n")
    assert first.files["examples/email.md"].size == 9
    assert set(first.directories) == {"empty", "examples", "partial"}


def test_a_folder_may_be_one_skill(tmp_path: Path) -> None:
    """``add_skills`` takes a folder of skills or one of them."""
    skill = add_skill(tmp_path, "refunds")
    add_skill(tmp_path, "refunds/partial")
    assert [each.where for each in found_in(skill)] == ["refunds", "refunds/partial"]


def test_hidden_files_and_caches_are_left_out(tmp_path: Path) -> None:
    """Editors and version control keep files in the folder that are no part of the skill."""
    skill = add_skill(tmp_path, "refunds")
    (skill / ".env").write_text("SECRET=1", encoding="utf-8")
    (skill / ".git").mkdir()
    (skill / ".git" / "SKILL.md").write_text("x", encoding="utf-8")
    (skill / "__pycache__").mkdir()
    (skill / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert [list(each.files) for each in found_in(tmp_path)] == [["SKILL.md"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no frontmatter", "does not begin with a line of three hyphens"),
        ("---\nname: refunds\n", "no line of three hyphens ends"),
        ("---\n- a\n---\n", "not a mapping"),
        ("---\nname: [\n---\n", "is not YAML"),
        ("---\nname: refunds\nname: other\ndescription: x\n---\n", "a key is there twice"),
        ("---\nname: refunds\n---\n", "needs a description"),
        ("---\nname: refunds\ndescription: ' '\n---\n", "needs a description"),
        ("---\nname: refunds\ndescription: 7\n---\n", "needs a description"),
        ("---\nname: Refunds\ndescription: x\n---\n", "needs a name of 1 to 64"),
        ("---\nname: re--funds\ndescription: x\n---\n", "needs a name of 1 to 64"),
        ("---\nname: other\ndescription: x\n---\n", "make them equal"),
        (f"---\nname: refunds\ndescription: {'x' * 1025}\n---\n", "more than 1024 characters"),
        (f"---\nname: refunds\ndescription: x\nnotes: {'x' * 70_000}\n---\n", "more than 65,536 characters"),
        ("---\nname: refunds\ndescription: x\nwhen: !!binary aGk=\n---\n", "a value that JSON does not have"),
        ("---\nname: refunds\ndescription: x\na: &a [*a]\n---\n", "refers to itself"),
        (
            "---\nname: refunds\ndescription: x\na: &a [1,1,1,1,1,1,1,1,1,1]\n"
            "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
            "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n---\n",
            "expands to too many values",
        ),
        (f"---\nname: refunds\ndescription: x\na: {'[' * 500}\n---\n", "levels deep"),
    ],
)
def test_a_frontmatter_that_cannot_be_served_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """The author learns it at the start, and not from a host that refuses the skill."""
    skill = tmp_path / "refunds"
    skill.mkdir()
    (skill / "SKILL.md").write_text(text, encoding="utf-8")
    message = refusal(tmp_path)
    assert why in message
    assert str(skill / "SKILL.md") in message


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    """Clients read ``SKILL.md`` as text."""
    add_skill(tmp_path, "refunds")
    (tmp_path / "refunds" / "SKILL.md").write_bytes(b"---\nname: refunds\ndescription: \xff\n---\n")
    assert "is not UTF-8" in refusal(tmp_path)


def test_the_bounds_of_one_skill_hold(tmp_path: Path) -> None:
    """A skill beyond the limits is not guaranteed to be loadable by any host ("Limits")."""
    skill = add_skill(tmp_path, "refunds")
    (skill / "a").write_bytes(b"x" * 50)
    (skill / "b").write_bytes(b"x" * 50)
    size = (skill / "SKILL.md").stat().st_size
    assert len(found_in(tmp_path, max_files=3, max_bytes=size + 100)) == 1
    assert "more than 2 files" in refusal(tmp_path, max_files=2)
    assert f"more than {size + 99} bytes" in refusal(tmp_path, max_bytes=size + 99)
    (skill / "b").write_bytes(b"x" * 1000)
    assert "larger than 500 bytes" in refusal(tmp_path, max_bytes=500)
    add_skill(tmp_path, "other")
    assert "more than 1 skills" in refusal(tmp_path, max_skills=1)


def test_folders_are_nested_within_a_bound(tmp_path: Path) -> None:
    """A path of any depth would need a stack of any depth."""
    add_skill(tmp_path, "/".join(["a"] * 40))
    assert "nested more than 32 folders deep" in refusal(tmp_path)


@LINKS
@pytest.mark.parametrize("kind", ["file", "folder", "up", "nowhere", "loop"])
def test_links_that_leave_the_folder_or_go_round_are_refused(tmp_path: Path, kind: str) -> None:
    """What a skill serves is in its folder, even if its author made a link."""
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (tmp_path / "private").mkdir()
    folder = tmp_path / "skills"
    skill = add_skill(folder, "refunds")
    target: dict[str, Any] = {
        "file": tmp_path / "secret.txt",
        "folder": tmp_path / "private",
        "up": folder,
        "nowhere": folder / "gone",
        "loop": skill / "link",
    }
    (skill / "link").symlink_to(target[kind])
    message = refusal(folder)
    assert any(why in message for why in ("leads out of", "link in a circle", "leads nowhere", "cannot be read"))


@LINKS
def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    """Skills may share a file."""
    skill = add_skill(tmp_path, "refunds")
    add_skill(tmp_path, "returns")
    (skill / "policy.md").write_text("policy", encoding="utf-8")
    (tmp_path / "returns" / "policy.md").symlink_to("../refunds/policy.md")
    files = {each.where: each.files for each in found_in(tmp_path)}
    assert files["returns"]["policy.md"].digest == files["refunds"]["policy.md"].digest


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_file_is_refused_and_not_opened(tmp_path: Path) -> None:
    """Opening a pipe waits until somebody writes into it."""
    skill = add_skill(tmp_path, "refunds")
    os.mkfifo(skill / "pipe")
    assert "neither a file nor a folder" in refusal(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    """A wrong path is the author's mistake, and not a server without skills."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert "is not a folder" in refusal(tmp_path / "file")
    app: MCPServer[Any] = MCPServer("x")
    with pytest.raises(RegistrationError, match="is not a folder"):
        app.add_skills(tmp_path / "gone")


def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    """A folder is checked while the server runs; only its facts are asked for then."""
    skill = add_skill(tmp_path, "refunds")
    (skill / "a.md").write_text("one", encoding="utf-8")
    (first,) = found_in(tmp_path)
    known = {str(file.path): file for file in first.files.values()}
    (skill / "a.md").write_text("other", encoding="utf-8")
    (second,) = find_skills(tmp_path, Bounds(), known)
    assert second.files["SKILL.md"] is first.files["SKILL.md"]
    assert second.files["a.md"].digest == digest_of(b"other")


def test_a_file_of_two_skills_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a nested skill belongs to the outer one too, and its digest is made of all its bytes."""
    outer = add_skill(tmp_path, "refunds")
    add_skill(tmp_path, "refunds/partial")
    (outer / "partial" / "policy.md").write_text("policy", encoding="utf-8")
    read: list[str] = []

    def noted(path: str, max_bytes: int) -> bytes | None:
        read.append(path)
        return read_at_most(path, max_bytes)

    monkeypatch.setattr(folder, "read_at_most", noted)
    first, second = found_in(tmp_path)
    assert first.files["partial/policy.md"] is second.files["policy.md"]
    assert len(read) == len(set(read)) == 3


def test_options_change_the_bounds(tmp_path: Path) -> None:
    """`Skills` has the bounds, and refuses at the start."""
    add_skill(tmp_path, "refunds")
    app: MCPServer[Any] = MCPServer("x", extensions=[Skills(max_bytes=10)])
    with pytest.raises(SkillFolderError, match="larger than 10 bytes"):
        app.add_skills(tmp_path)
