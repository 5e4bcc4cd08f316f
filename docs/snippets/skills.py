"""Skills: served from a folder and by a function, and used by a client."""

# --8<-- [start:code]
from pathlib import Path

from ferrule import MCPServer

app = MCPServer("office", instructions="To fill in forms use skill://pdf-forms/SKILL.md.")
app.add_skills(Path(__file__).parent / "skills")


@app.skill
def duty_roster() -> str:
    """Say who is on duty today."""
    return "# On duty\n\nAsk Ann."


# --8<-- [end:code]


# --8<-- [start:client]
from ferrule import Client


async def ask_user(skill) -> bool:
    print(f"{skill.label}: {skill.description} ({len(skill.paths)} files)")
    return True  # a dialog of the host


async def use(target) -> str:
    async with Client(target, approve_skill=ask_user) as client:
        for skill in await client.list_skills():
            print(skill.name, skill.description)  # for the model to choose from
        skill = await client.get_skill("skill://pdf-forms/SKILL.md")
        text = await skill.load()
        notes = await skill.read_text("references/FORMS.md")
        return skill.tagged(text + notes)


# --8<-- [end:client]


async def check(mode: str) -> None:
    """The text has its origin, and the notes."""
    text = await use(app)
    assert 'uri="skill://pdf-forms/SKILL.md"' in text
    assert "Fill" in text
