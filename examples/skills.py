"""Agent skills over MCP: a folder of SKILL.md files, one that a function writes, and a host that verifies and asks.

python examples/skills.py                        shows it in both eras
python examples/skills.py stdio                  serves over stdin and stdout
python examples/skills.py http --port 8000       serves http://127.0.0.1:8000/mcp
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ferrule import Client, MCPServer
from ferrule.client.skills.skill import ServerSkill
from ferrule.errors import SkillVerificationFailed

app = MCPServer("weather-office", instructions="For reports use skill://monthly-report/SKILL.md.")
app.add_skills(Path(__file__).parent / "data" / "skills")


@app.skill("duty-roster", prefix="office")
def duty_roster() -> str:
    """Say who is on duty today."""
    today = datetime.now(UTC)
    return f"# Duty on {today:%A}\n\nAsk {'Ann' if today.day % 2 else 'Bob'}.\n"


def ask_the_user(skill: ServerSkill) -> bool:
    """Approve what is on the list; a host shows a dialog here."""
    print(f"  {'changed: ' if skill.is_changed else ''}may {skill.name} be used? {len(skill.paths) + 1} files: yes")
    return True


async def show(client: Client) -> None:
    """List the skills, load one, and read what it refers to."""
    skills = {skill.name: skill for skill in await client.list_skills()}
    for skill in skills.values():
        kind = "made at each read" if skill.is_dynamic else f"{len(skill.paths) + 1} files"
        print(f"  {skill.uri}: {skill.description} ({kind})")
    report = skills["monthly-report"]
    text = await report.load()  # asks the user, reads SKILL.md, verifies it
    print(f"  loaded {len(text)} characters, reviewed {report.frontmatter['metadata']['reviewed']}")
    print(f"  the template: {(await report.read_text('templates/report.md')).splitlines()[0]}")
    try:
        await report.read("../../climate.csv")
    except SkillVerificationFailed as error:
        print(f"  refused: {error}")
    children = await client.read_directory("skill://monthly-report/templates")
    print(f"  the folder: {', '.join(child.name for child in children)}")


if __name__ == "__main__":
    from showing import main

    main(app, show, approve_skill=ask_the_user)
