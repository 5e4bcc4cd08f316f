"""The rules of skills: names, URIs and frontmatter."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.protocol.skills import (
    FrontmatterError,
    differing_field,
    digest_of,
    frontmatter_text,
    is_digest,
    is_skill_name,
    name_in_uri,
    read_frontmatter,
    root_of,
    write_frontmatter,
)


@pytest.mark.parametrize("name", ["a", "a1", "git-workflow", "0", "a" * 64])
def test_names_of_skills(name: str) -> None:
    """Agent Skills specification, "name"."""
    assert is_skill_name(name)


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a--b", "a" * 65, "a b", "é", "a\n", "a/b"])
def test_what_is_no_name(name: str) -> None:
    """Agent Skills specification, "name"."""
    assert not is_skill_name(name)


@pytest.mark.parametrize(
    ("uri", "root", "name"),
    [
        ("skill://refunds/SKILL.md", "skill://refunds", "refunds"),
        ("skill://acme/refunds/SKILL.md", "skill://acme/refunds", "refunds"),
        ("github://o/r/skills/x/SKILL.md", "github://o/r/skills/x", "x"),
        ("skill://refunds/skill.md", None, ""),
        ("skill:///SKILL.md", None, ""),
        ("skill://SKILL.md", None, ""),
        ("SKILL.md", None, ""),
        ("", None, ""),
    ],
)
def test_the_root_and_the_name_are_in_the_uri(uri: str, root: str | None, name: str) -> None:
    """No scheme is privileged ("Resource Mapping")."""
    assert root_of(uri) == root
    if root is not None:
        assert name_in_uri(uri) == name


def test_digests() -> None:
    """Lowercase hexadecimal digits ("Integrity and Verification")."""
    assert digest_of(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert is_digest(digest_of(b"x"))
    for wrong in ("", "sha256:", digest_of(b"x").upper(), digest_of(b"x") + "\n", "md5:" + "0" * 64):
        assert not is_digest(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: a\n---\nBody",
        "\ufeff---\r\nname: a\r\n---\r\nBody",
        "---\nname: a\n---",
        "---\nname: a\n---  \n",
        "---\nname: a\n---\n---\nname: b\n---\n",
    ],
)
def test_where_the_frontmatter_ends(text: str) -> None:
    """At the first line of three hyphens after the first one."""
    assert read_frontmatter(text) == {"name": "a"}


def test_an_empty_frontmatter_is_no_mapping() -> None:
    """There are two required fields."""
    assert frontmatter_text("---\n---\nBody") == ""
    with pytest.raises(FrontmatterError, match="not a mapping"):
        read_frontmatter("---\n---\nBody")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not begin with"),
        ("name: a\n---\n", "does not begin with"),
        (" ---\nname: a\n---\n", "does not begin with"),
        ("---\nname: a\n", "no line of three hyphens ends"),
        ("---\nname: a\n----\n", "no line of three hyphens ends"),
        ("---\n" + "x" * 100_000 + "\n---\n", "more than 65,536 characters"),
    ],
)
def test_texts_without_a_usable_frontmatter(text: str, why: str) -> None:
    """``SKILL.md`` must begin with it ("Skill Format")."""
    with pytest.raises(FrontmatterError, match=why):
        read_frontmatter(text)


def test_a_written_frontmatter_is_read_as_the_same() -> None:
    """A skill that a function makes has one, too."""
    fields: dict[str, Any] = {"name": "a", "description": 'x: "y"\nz', "allowed-tools": "Read", "true": [1, "1"]}
    text = write_frontmatter(fields)
    assert text.startswith("---\nname: ")
    assert read_frontmatter(text) == fields
    assert differing_field(fields, text) is None


@pytest.mark.parametrize(
    ("entry", "text", "field"),
    [
        ({"name": "a", "n": 1}, "name: a\nn: 1.0", None),
        ({"name": "a", "n": "yes"}, "name: a\nn: yes", None),
        ({"name": "a", "n": True}, "name: a\nn: yes", None),
        ({"name": "a", "n": True, "m": "on"}, "name: a\nn: yes\nm: on", None),
        ({"name": "a", "d": "2026-01-01"}, "name: a\nd: 2026-01-01", None),
        ({"name": "a"}, "name: b", "name"),
        ({"name": "a"}, "name: a\nhooks: x", "hooks"),
        ({"name": "a", "hooks": None}, "name: a", "hooks"),
        ({"name": "a", "m": {"x": [1, {"y": 2}]}}, "name: a\nm: {x: [1, {y: 3}]}", "m"),
        ({"name": "a", "m": {"x": [1]}}, "name: a\nm: {x: [1, 2]}", "m"),
        ({"name": "a", "n": 1}, "name: a\nn: true", "n"),
        ({"name": "a", "n": 0}, "name: a\nn: false", "n"),
        ({"name": "a", "n": "1"}, "name: a\nn: 1", "n"),
        ({"name": "a", "n": ""}, "name: a\nn:", "n"),
    ],
)
def test_frontmatter_is_compared_field_by_field(entry: dict[str, Any], text: str, field: str | None) -> None:
    """What a user approves from the entry is what the model receives ("Frontmatter Verification")."""
    assert differing_field(entry, f"---\n{text}\n---\n") == field
