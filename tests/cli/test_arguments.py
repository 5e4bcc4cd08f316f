"""``name=value`` by the type in the tool's schema."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import click
import pytest

from ferrule import MCPServer
from ferrule.cli.arguments import read_arguments, read_json_option

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "flag": {"type": "boolean"},
        "words": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "shape": {"$ref": "#/$defs/Shape"},
        "choice": {"enum": ["1", "2"]},
        "either": {"type": ["string", "null"]},
    },
    "$defs": {"Shape": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}


def picture_schema() -> dict[str, Any]:
    """What a server publishes for a parameter of bytes."""
    app = MCPServer("pictures")

    @app.tool
    def draw(picture: bytes) -> int:
        """Count bytes."""
        return len(picture)

    return dict(app.list_tools()[0].input_schema["properties"]["picture"])


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("text=5", "5"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text={}", "{}"),
        ("count=5", 5),
        ("ratio=1.5", 1.5),
        ("ratio=null", None),
        ("flag=yes", True),
        ("flag=false", False),
        ("words=one", ["one"]),
        ('words=["a", "b"]', ["a", "b"]),
        ("numbers=7", [7]),
        ('shape={"x": 1}', {"x": 1}),
        ("choice=1", "1"),
        ("either=null", None),
        ("either=no", "no"),
        ("unknown=5", 5),
        ("unknown=five", "five"),
        ('unknown:={"a": [1]}', {"a": [1]}),
    ],
)
def test_a_value_has_the_type_of_its_parameter(pair: str, value: Any) -> None:
    """A text parameter must not receive a number because the text looks like one."""
    name = pair.partition("=")[0].rstrip(":")
    assert read_arguments([pair], SCHEMA) == {name: value}


def test_a_list_repeats_its_name() -> None:
    """The shell's way of saying a list."""
    assert read_arguments(["words=a", "words=b", "numbers=1", "numbers=2"], SCHEMA) == {
        "words": ["a", "b"],
        "numbers": [1, 2],
    }


def test_a_file_is_a_value(tmp_path: Path) -> None:
    """Long texts do not belong on a command line."""
    (tmp_path / "note").write_text("long\ntext")
    assert read_arguments([f"text=@{tmp_path / 'note'}"], SCHEMA) == {"text": "long\ntext"}
    (tmp_path / "all.json").write_text('{"a": 1}')
    assert read_json_option(f"@{tmp_path / 'all.json'}") == {"a": 1}
    (tmp_path / "all.json").write_text('{"a": 1}', encoding="utf-8-sig")  # as some editors save it
    assert read_json_option(f"@{tmp_path / 'all.json'}") == {"a": 1}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "contentEncoding": "base64"},
        {"type": "string", "format": "byte"},
        {"anyOf": [{"type": "string", "contentEncoding": "base64"}, {"type": "null"}]},
        picture_schema(),
    ],
    ids=["keyword", "OpenAPI", "optional", "ours"],
)
def test_a_file_for_bytes_is_given_as_base64(part: dict[str, Any], tmp_path: Path) -> None:
    """A picture for a tool; also where the bytes happen to be text."""
    for content in (b"\x89PNG\r\n", b"plain text"):
        (tmp_path / "picture").write_bytes(content)
        made = read_arguments([f"picture=@{tmp_path / 'picture'}"], {"properties": {"picture": part}})
        assert b64decode(made["picture"], validate=True) == content


def test_a_file_that_is_no_text_is_given_as_base64(tmp_path: Path) -> None:
    """JSON has no other form for bytes, whatever the schema forgot to say."""
    (tmp_path / "picture").write_bytes(b"\x89PNG")
    assert read_arguments([f"text=@{tmp_path / 'picture'}"], SCHEMA) == {"text": "iVBORw=="}


@pytest.mark.parametrize(
    "pair",
    [
        *("text", "=5", "count=five", "shape={", "unknown:=five", "text=@/no/such/file"),
        *("ratio=NaN", 'unknown:={"a": [-Infinity]}'),  # which would be sent as null
        f"unknown:={'[' * 100_000}",
    ],
    ids=lambda pair: pair[:30],
)
def test_a_malformed_pair_is_a_mistake_of_usage(pair: str) -> None:
    """Said before anything is sent."""
    with pytest.raises(click.UsageError):
        read_arguments([pair], SCHEMA)


@pytest.mark.parametrize(
    "text", ["[1]", "{", "@/no/such/file", '{"a": NaN}', '{"a": ' * 100_000], ids=lambda text: text[:15]
)
def test_json_is_an_object(text: str) -> None:
    """Arguments have names."""
    with pytest.raises(click.UsageError):
        read_json_option(text)


def test_a_schema_that_branches_without_end_costs_little() -> None:
    """A foreign schema may branch a hundredfold at each of its references; each part is looked at once."""
    defs: dict[str, Any] = {f"n{n}": {"anyOf": [{"$ref": f"#/$defs/n{n + 1}"}] * 300} for n in range(4)}
    defs["n4"] = {"type": "integer"}
    schema = {"$defs": defs, "properties": {"x": {"$ref": "#/$defs/n0"}}}
    assert read_arguments(["x=1"], schema) in ({"x": 1}, {"x": "1"})
