"""Configuration files of hosts, as people write them; by `Client` and by the command line alike."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import click
import pytest

from ferrule import Client
from ferrule.cli.targets import read_choice, read_group
from ferrule.client.config import read_target
from ferrule.client.config_file import ConfigError
from ferrule.client.targets import GroupTarget, HttpTarget, StdioTarget

AS_PEOPLE_WRITE_THEM = """\ufeff// my servers
{
  /* two of them */
  "mcpServers": {
    "one": {"command": "node", "args": ["a b", 8080, true], "cwd": "~", "env": {"PORT": 1}, "timeout": 9,},
    "two": {"serverUrl": "http://127.0.0.1:1/mcp", "headers": {"X": "${TOKEN:-none}"}},
  },
}
"""


def written(tmp_path: Path, entry: Any, name: str = "mcp.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps({"mcpServers": {"docs": entry, "other": {"command": sys.executable}}}))
    return path


def target_of(path: Path) -> Any:
    """What `Client` makes of the entry ``docs``; raises what the command line says, after seeing that it says it."""
    group = read_target(str(path))
    assert isinstance(group, GroupTarget)
    found = group.servers["docs"]
    if isinstance(found, Exception):
        with pytest.raises(click.UsageError) as refused:
            read_choice(f"{path}:docs")
        assert str(found) in refused.value.message
        raise found
    chosen = read_choice(f"{path}:docs").target
    assert (chosen, chosen.known_as) == (found, "docs")  # what a question calls the server
    return found


@pytest.mark.parametrize("name", ["mcp.json", "mcp.jsonc", "MCP.JSONC"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_comments_commas_marks_and_spellings_are_taken(tmp_path: Path, name: str, encoding: str) -> None:
    """The same by both readers; what a host keeps beside is passed over."""
    path = tmp_path / name
    path.write_bytes(AS_PEOPLE_WRITE_THEM.lstrip("\ufeff" if encoding == "utf-16" else "").encode(encoding))
    group = read_target(path)
    assert isinstance(group, GroupTarget)
    one, two = group.servers["one"], group.servers["two"]
    assert isinstance(one, StdioTarget)
    assert (one.server.command, one.server.args) == ("node", ("a b", "8080", "true"))
    assert (one.server.cwd, one.server.env) == (str(Path.home()), {"PORT": "1"})
    assert two == HttpTarget("http://127.0.0.1:1/mcp", {"X": "none"})
    assert (one.known_as, two.known_as) == ("one", "two")
    from_command_line = read_group(str(path))
    assert from_command_line is not None
    assert dict(from_command_line[1].servers) == {"one": one, "two": two}
    assert cast("Any", Client(path)).servers["two"].client.label == "two"


@pytest.mark.parametrize("key", ["url", "serverUrl", "httpUrl"])
@pytest.mark.parametrize("where", ["mcpServers", "servers", "mcp.servers", ""])
def test_every_spelling_of_a_url_in_every_place(tmp_path: Path, key: str, where: str) -> None:
    """Hosts differ in both."""
    entry: Any = {key: "https://h/mcp", "type": "streamable-http"}
    document: Any = {"docs": entry} if where else entry
    for name in reversed(where.split(".") if where else []):
        document = {name: document}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(document))
    found = read_target(path)
    target = found.servers["docs"] if isinstance(found, GroupTarget) else found
    assert target == HttpTarget("https://h/mcp")


WRONG: dict[str, tuple[Any, str]] = {
    "arguments in one text": ({"command": "x", "args": "a b"}, r'docs\.args is a text; it is a list: .*\["a", "b"\]'),
    "arguments in the command": (
        {"command": "npx -y thing"},
        r"docs\.command is 'npx -y thing', which is not a program",
    ),
    "an argument that is an object": ({"command": "x", "args": [{}]}, r"docs\.args\[0\] is an object; it is a text"),
    "environment": ({"command": "x", "env": ["A=1"]}, r"docs\.env is a list; it is an object"),
    "a value of it": ({"command": "x", "env": {"A": []}}, r"docs\.env\.A is a list; it is a text"),
    "headers": ({"url": "http://h/", "headers": "A: b"}, r"docs\.headers is a text; it is an object"),
    "a misspelt key": ({"command": "x", "arg": ["a"]}, r"docs has the unknown key 'arg'; did you mean 'args'\?"),
    "its case": ({"Command": "x"}, r"docs has the unknown key 'Command'; did you mean 'command'\?"),
    "both": ({"command": "x", "url": "http://h/"}, r"docs has a 'command' and a 'url'"),
    "neither": ({"args": []}, r"docs: an entry has a 'command' or a 'url'"),
    "a kind": ({"type": "ws", "url": "ws://h/"}, r"docs\.type is 'ws'; 'stdio', 'http' and 'sse' are known"),
    "a kind without its member": ({"type": "http"}, r"docs has no 'url', which an entry of type 'http' has"),
    "a URL": ({"url": 5}, r"docs\.url is a number; it is a text"),
    "a variable": (
        {"command": "${NO_SUCH_THING}"},
        r"docs\.command: The environment variable NO_SUCH_THING is not set",
    ),
    "an input": (
        {"url": "http://h/", "headers": {"A": "${input:token}"}},
        r"docs\.headers\.A asks the user for 'token'",
    ),
    "disabled": ({"command": "x", "disabled": True}, "docs is disabled"),
    "a text": ("rm -rf /", r"docs is a text; it is an object"),
    "a list": (["rm", "-rf"], r"docs is a list; it is an object"),
    "nothing": (None, r"docs is null; it is an object"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_not_plainly_meant_is_refused_with_file_and_key(tmp_path: Path, case: str) -> None:
    """Nothing is split, nothing is run by guess; the other servers of the file are there."""
    entry, message = WRONG[case]
    path = written(tmp_path, entry)
    with pytest.raises(ConfigError, match=message) as refused:
        target_of(path)
    assert str(path) in str(refused.value)
    group = read_target(path)
    assert isinstance(group, GroupTarget)
    assert isinstance(group.servers["other"], StdioTarget)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("[]", "holds a list; a configuration is an object"),
        ('{"mcpServers": []}', "mcpServers is a list; it is an object"),
        ('{"mcpServers": {,}}', "line 1, column"),
        ('{"mcp_servers": {}}', "did you mean 'mcpServers' by 'mcp_servers'"),
        ('{"theme": "dark"}', "has neither 'mcpServers' nor a 'command' or 'url'"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str, message: str) -> None:
    """By `Client`; the command line reads the same file with the same words."""
    path = tmp_path / "mcp.jsonc"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as refused:
        Client(str(path))
    assert str(path) in str(refused.value)
    with pytest.raises(click.UsageError):
        read_choice(str(path))


def test_a_file_that_is_no_program_is_not_run(tmp_path: Path) -> None:
    """A path is a server only if it is executable, or of a known kind."""
    path = tmp_path / "servers.yaml"
    path.write_text("mcpServers: {}")
    with pytest.raises(ValueError, match="is not executable: a server is"):
        Client(path)
    with pytest.raises(ValueError, match="is a folder"):
        Client(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no file 'nowhere\.jsonc'"):
        Client("nowhere.jsonc")
    program = tmp_path / "a program"
    program.write_text("#!/bin/sh\n")
    os.chmod(program, 0o755)
    assert cast("Any", read_target(program)).server.command == str(program)
    assert target_of(written(tmp_path, {"command": str(program)})).server.command == str(program)
