"""``ferrule publish --check``: document to stdout, judgement to stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ferrule.cli import main
from tests.cli.publishing.support import made_project


def test_the_document_and_the_judgement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``> server.json`` gets the document alone."""
    path = made_project(tmp_path)
    assert main(["publish", "--check", f"{path}:app"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["name"] == "io.github.me/weather"
    assert "prove that you own the GitHub account me" in err
    assert not (tmp_path / "server.json").exists()
    assert main(["publish", "--check", "--write", str(path)]) == 0
    assert json.loads((tmp_path / "server.json").read_text()) == json.loads(out)
    assert "written" in capsys.readouterr().err


def test_what_fails_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made_project(tmp_path, readme="# no claim\n")
    assert main(["publish", "--check", "--write", str(path)]) == 1
    assert "mcp-name: io.github.me/weather" in capsys.readouterr().err
    assert not (tmp_path / "server.json").exists()


def test_a_schema_judges_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made_project(tmp_path)
    schema = tmp_path / "s.json"
    schema.write_text('{"required": ["more"]}')
    assert main(["publish", "--check", str(path), "--schema", str(schema)]) == 1
    assert "the schema refuses it" in capsys.readouterr().err


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made_project(tmp_path)
    assert main(["publish", str(path)]) == 2
    assert "mcp-publisher uploads it" in capsys.readouterr().err
    assert main(["publish", "--check", "nothing.py"]) == 2
    (tmp_path / "pyproject.toml").write_text("not toml")
    assert main(["publish", "--check", str(path)]) == 2
    path.write_text(
        "from ferrule import Server\nfrom ferrule.types import Implementation\napp = Server(Implementation('s', '1'))\n"
    )
    assert main(["publish", "--check", str(path)]) == 2
    assert "low-level server" in capsys.readouterr().err
