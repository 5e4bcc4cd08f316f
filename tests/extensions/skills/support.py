"""Folders of skills for tests."""

from __future__ import annotations

from pathlib import Path

__all__ = ["add_skill"]


def add_skill(
    folder: Path, where: str, description: str = "What it does", body: str = "# Do it\n", **more: str
) -> Path:
    """Make a skill, and return its directory.

    Args:
        folder: the folder of skills.
        where: the path of the skill in it.
        description, body: of its ``SKILL.md``.
        more: further lines of the frontmatter.
    """
    skill = folder / where
    skill.mkdir(parents=True, exist_ok=True)
    fields = {"name": skill.name, "description": description, **more}
    lines = "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in fields.items())
    (skill / "SKILL.md").write_text(f"---\n{lines}---\n\n{body}", encoding="utf-8", newline="\n")
    return skill
