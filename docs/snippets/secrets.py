"""Values that are written nowhere."""

# --8<-- [start:code]
from dataclasses import dataclass

from ferrule import MCPServer, Secret

app = MCPServer("mail")


@app.tool
def connect(host: str, user: str, password: Secret[str]) -> str:
    """Connect to a mail server."""
    sign_in(host, user, password.get_secret_value())  # the one place that gets the text
    return f"connected to {host} as {user} with {password}"  # "… with **********"


# --8<-- [end:code]


# --8<-- [start:settings]
@dataclass
class Settings:
    api_key: Secret[str]  # the variable API_KEY


settings = app.declare_settings(Settings, environ={"API_KEY": "a key"})
# --8<-- [end:settings]

SIGNED_IN: list[tuple[str, ...]] = []


def sign_in(*facts: str) -> None:
    SIGNED_IN.append(facts)


async def check(mode: str) -> None:
    """In both eras."""
    from ferrule import Client

    SIGNED_IN.clear()
    async with Client(app, mode=mode) as client:
        (tool,) = await client.list_tools()
        assert tool.input_schema["properties"]["password"]["writeOnly"] is True
        done = await client.call_tool("connect", {"host": "h", "user": "ada", "password": "hunter2"})
        assert done.text == "connected to h as ada with **********"
    assert SIGNED_IN == [("h", "ada", "hunter2")]
    assert settings.value.api_key.get_secret_value() == "a key"
    assert "a key" not in repr(settings.value)
