"""ferrule.cli.publishing.checks: each thing that the registry refuses is found before it is uploaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.cli.doctor.findings import Report
from ferrule.cli.loading import load_app
from ferrule.cli.projects import project_of
from ferrule.cli.publishing.checks import judge, judge_by_schema
from ferrule.cli.publishing.server_json import server_json
from ferrule.types import Icon
from tests.cli.publishing.support import CARD, PYPROJECT, SERVER, made_project

GOOD = {"name", "version", "command", "claimed", "remote"}


def findings(path: Path, app: Any = None, written: Path | None = None, **changes: Any) -> dict[str, str]:
    """Level by code; ``changes`` are members of the document that are set."""
    report = Report(lambda _: None)
    app = load_app(path, None) if app is None else app
    project = project_of(path)
    judge(report, {**server_json(app, project), **changes}, app, project, written)
    return {each.code: each.level for each in report.findings}


def bad(found: dict[str, str]) -> set[str]:
    return {code for code, level in found.items() if level in ("fail", "warn")}


def test_a_project_that_is_ready(tmp_path: Path) -> None:
    found = findings(made_project(tmp_path))
    assert found == dict.fromkeys(GOOD, "ok")


@pytest.mark.parametrize(
    ("name", "code"), [("weather", "name"), ("a/b/c", "name"), ("x y/z", "name"), ("localhost/weather", "namespace")]
)
def test_names(tmp_path: Path, name: str, code: str) -> None:
    assert findings(made_project(tmp_path), name=name)[code] == "fail"


@pytest.mark.parametrize(
    "version", ["^1.2.3", "~1.2.3", ">=1.2.3", "1.x", "1.2.x", "1.*", "latest", "1.0 - 2.0", "v" * 256]
)
def test_versions_that_are_ranges(tmp_path: Path, version: str) -> None:
    assert findings(made_project(tmp_path), version=version)["version"] == "fail"


@pytest.mark.parametrize("version", ["1.2.0", "2.1.0-alpha", "2026.11.28", "1.0.0+build.7", "1.2.0rc1"])
def test_versions_that_are_one(tmp_path: Path, version: str) -> None:
    assert findings(made_project(tmp_path), version=version)["version"] == "ok"


def test_a_missing_version(tmp_path: Path) -> None:
    """Computed by the build, and not said by the server."""
    path = made_project(tmp_path, pyproject=PYPROJECT.replace('version = "1.2.0"', 'dynamic = ["version"]'))
    assert findings(path, MCPServer("weather"))["version"] == "fail"
    assert findings(path)["version"] == "ok"


def test_two_versions_that_differ(tmp_path: Path) -> None:
    path = made_project(tmp_path, pyproject=PYPROJECT.replace('"1.2.0"', '"1.3.0"'))
    assert findings(path)["versions-differ"] == "fail"


@pytest.mark.parametrize(("scripts", "code"), [("", "no-command"), ('weather = "server:main"', "other-command")])
def test_a_package_that_uvx_cannot_start(tmp_path: Path, scripts: str, code: str) -> None:
    path = made_project(tmp_path, pyproject=PYPROJECT.replace('weather-mcp = "server:main"', scripts))
    assert findings(path)[code] == "fail"


@pytest.mark.parametrize(
    ("readme", "code"),
    [(None, "no-readme"), ("# Weather\n", "not-claimed"), ("mcp-name: com.example/x\n", "not-claimed")],
)
def test_a_package_that_nothing_proves_to_be_ones_own(tmp_path: Path, readme: str | None, code: str) -> None:
    assert bad(findings(made_project(tmp_path, readme=readme))) == {code}


@pytest.mark.parametrize("url", ["http://weather.example.com/mcp", "https://localhost/mcp", "https://10.0.0.7/mcp"])
def test_urls_that_cannot_be_reached(tmp_path: Path, url: str) -> None:
    assert findings(made_project(tmp_path), remotes=[{"type": "streamable-http", "url": url}])["remote"] == "fail"


def test_neither_a_package_nor_a_url(tmp_path: Path) -> None:
    path = made_project(tmp_path, server=SERVER, pyproject=None)
    assert findings(path, MCPServer("com.example/weather", description="d"))["nothing-to-reach"] == "fail"


def test_texts(tmp_path: Path) -> None:
    path = made_project(tmp_path, pyproject=PYPROJECT.replace('"A server for weather"', '""'))
    app = MCPServer("io.github.me/weather", icons=[Icon("data:image/png;base64,AA==")])
    assert bad(findings(path, app)) == {"description", "icons"}
    long = MCPServer("io.github.me/weather", description="word " * 30)
    assert bad(findings(path, long)) == {"description"}


def test_what_was_written_before(tmp_path: Path) -> None:
    """A version is taken once: another content needs another version."""
    path = made_project(tmp_path)
    file = tmp_path / "server.json"
    document = server_json(load_app(path, None), project_of(path))
    for text, level in (
        (json.dumps(document), {"written": "ok"}),
        (json.dumps({**document, "title": "x"}), {"same-version": "warn"}),
        (json.dumps({**document, "version": "1.1.0"}), {"written": "note"}),
        ("no json", {"written": "warn"}),
        ("[" * 100_000, {"written": "warn"}),
        (" " * 1_100_000, {"written": "warn"}),
    ):
        file.write_text(text)
        found = findings(path, written=file)
        assert {code: found[code] for code in found.keys() - GOOD} == level


def test_a_copy_of_the_schema_is_applied(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"properties": {"name": {"maxLength": 3}}}))
    for document, level in (({"name": "abc"}, "ok"), ({"name": "abcd"}, "fail")):
        report = Report(lambda _: None)
        judge_by_schema(report, document, path)
        assert [each.level for each in report.findings] == [level]
    remote = '{"$ref": "file:///etc/hosts"}'
    for text, said in (("[", ""), ("3", ""), ("[" * 100_000, ""), (remote, "nothing is loaded")):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"no JSON Schema.*{said}"):
            judge_by_schema(Report(lambda _: None), {}, path)


def test_the_card_is_what_names_it(tmp_path: Path) -> None:
    """Without it the name is made of the repository, and the README still proves it."""
    path = made_project(tmp_path, server=SERVER)
    assert CARD not in path.read_text()
    assert bad(findings(path)) == set()
