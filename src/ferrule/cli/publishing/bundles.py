"""Puts a bundle together: the chosen files, ``pyproject.toml``, the file that starts the server, and the manifest.

The bundle has the type ``uv``: it holds sources and requirements, and the host makes the environment. So it has no
compiled modules, and is the same file for every system.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

import click

from ferrule.cli.exits import EXIT_FAILED, EXIT_USAGE, Quit
from ferrule.cli.hosts.edits import FormatError, quoted
from ferrule.cli.hosts.toml_text import parse as parse_toml
from ferrule.cli.loading import lowlevel_of, settings_of
from ferrule.cli.publishing.archives import zip_bytes
from ferrule.cli.publishing.manifest_members import check_manifest
from ferrule.cli.publishing.manifests import lowest_of, make_manifest, semantic_version
from ferrule.cli.publishing.packing import check_size, choose_files
from ferrule.cli.publishing.projects import ServerProject, dependency_name, generated_pyproject, project_name
from ferrule.cli.publishing.secret_search import find_secrets, known_secrets
from ferrule.wire.json_types import is_mapping
from ferrule.wire.struct import Value

__all__ = ["Bundle", "BundleOptions", "make_bundle"]

_STARTER: Final = "start_server.py"
_START: Final = '''\
"""Starts the server of this bundle."""

import sys
from pathlib import Path

from ferrule.cli import main

if __name__ == "__main__":
    sys.exit(main(["run", str(Path(__file__).resolve().parent / {target!r})]))
'''


class BundleOptions(Value, frozen=True, kw_only=True):
    """What the command line says about a bundle.

    Attributes:
        author: who made the server; ``None`` for what the project says.
        icon: the path of a PNG file below the root; ``None`` for what the project says, or ``icon.png``.
        include: patterns of further files.
        not_secret: patterns of files that are not searched for secrets.
        wheels: files of packages that the bundle carries.
        requirements: further requirements of a file alone.
    """

    author: str | None = None
    icon: str | None = None
    include: Sequence[str] = ()
    not_secret: Sequence[str] = ()
    wheels: Sequence[Path] = ()
    requirements: Sequence[str] = ()


class Bundle(Value, frozen=True, kw_only=True):
    """The content of a bundle.

    Attributes:
        files: path to content, without the manifest.
        executable: the paths of files that may be executed.
        manifest: the members of ``manifest.json``.
        samples: for settings with few values one of these, for a trial.
        notes: sentences for the author.
    """

    files: dict[str, bytes]
    executable: frozenset[str]
    manifest: dict[str, Any]
    samples: dict[str, str]
    notes: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """The usual name of the file: name and version of the server."""
        return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', self.manifest['name'])}-{self.manifest['version']}.mcpb"

    def archive(self) -> bytes:
        """Return the bytes of the bundle; the same bytes for the same content."""
        text = json.dumps(self.manifest, indent=2, ensure_ascii=False) + "\n"
        return zip_bytes({**self.files, "manifest.json": text.encode("utf-8")}, self.executable)


def make_bundle(project: ServerProject, app: Any, options: BundleOptions) -> Bundle:
    """Return the bundle of a server.

    Args:
        project: the project of the server.
        app: the server itself.
        options: what the command line says.

    Raises:
        Quit: files look like secrets, the server could not be installed elsewhere, or the manifest would be wrong.
        click.UsageError: an option does not fit.
    """
    notes: list[str] = []
    icon = _icon_of(project, options)
    chosen = choose_files(project, [*options.include, *([icon] if icon is not None else [])])
    files = {path: file.read_bytes() for path, file in chosen.items()}
    if files.pop("manifest.json", None) is not None:
        notes.append("manifest.json of the project is not packed: a new one is made")
    if project.is_single:
        files["pyproject.toml"] = _pyproject_of_file(project, app, options).encode("utf-8")
    elif options.requirements:
        raise click.UsageError("--with REQUIREMENT is for a file alone: add it to the dependencies in pyproject.toml")
    _refuse_secrets(project, app, files, options)
    _check_requirements(project, options)
    _carry_wheels(files, options.wheels, notes)
    check_size({path: len(content) for path, content in files.items()})
    files.setdefault(".python-version", f"{sys.version_info.major}.{sys.version_info.minor}\n".encode())
    entry_point = _entry_point(project, files)
    manifest = make_manifest(project, app, entry_point=entry_point, author=options.author, icon=icon)
    problems = check_manifest(manifest, files)
    if problems:
        raise Quit(EXIT_FAILED, "\n- ".join(["the manifest would be wrong:", *problems]))
    if manifest["version"] == "0.0.0":
        notes.append("the version is 0.0.0: set it with MCPServer(version=…)")
    is_posix = sys.platform != "win32"
    return Bundle(
        files=files,
        executable=frozenset(path for path, file in chosen.items() if is_posix and file.stat().st_mode & 0o100),
        manifest=manifest,
        samples={field.name: field.choices[0] for field in settings_of(app) if field.choices},
        notes=tuple(notes),
    )


def _icon_of(project: ServerProject, options: BundleOptions) -> str | None:
    named = options.icon or project.options.get("icon")
    if named is not None and not (project.root / str(named)).is_file():
        raise Quit(EXIT_USAGE, f"there is no icon {named!r} in {project.root}")
    if named is None and not project.is_single and (project.root / "icon.png").is_file():
        return "icon.png"
    return None if named is None else PurePosixPath(str(named)).as_posix()


def _pyproject_of_file(project: ServerProject, app: Any, options: BundleOptions) -> str:
    info = lowlevel_of(app).server_info
    return generated_pyproject(
        project,
        name=project_name(project, info.name),
        version=semantic_version("0.0.0" if info.version == "0" else info.version),
        description=info.description or info.title or info.name,
        extra=list(options.requirements),
    )


def _refuse_secrets(project: ServerProject, app: Any, files: dict[str, bytes], options: BundleOptions) -> None:
    secret = {field.variable for field in settings_of(app) if field.is_secret}
    allowed = [*map(str, project.options.get("not-secret", ())), *options.not_secret]
    found = find_secrets(files, known_secrets(project.root, secret), allowed)
    if found:
        lines = [f"- {place}: {why}" for place, why in found]
        advice = (
            "Everyone who gets a bundle can read it. Take it out, and declare a setting with secret=True; or if it is "
            "no secret: --not-secret PATH"
        )
        raise Quit(EXIT_FAILED, "\n".join(["not packed, because of what looks like a secret:", *lines, advice]))


def _check_requirements(project: ServerProject, options: BundleOptions) -> None:
    """Refuse what could not be installed on another machine, or not be tried with this Python."""
    lowest = lowest_of(str(project.project.get("requires-python") or ""))
    if lowest > sys.version_info[:2]:
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise Quit(
            EXIT_FAILED, f"the server needs Python {'.'.join(map(str, lowest))}, and this is {here}: run ferrule there"
        )
    carried = {dependency_name(wheel.name.partition("-")[0]) for wheel in options.wheels}
    is_listed = not project.is_single or "dependencies" in project.project
    if is_listed and "dependencies" not in project.project.get("dynamic", ()):
        names = {dependency_name(each) for each in project.dependencies}
        if "ferrule" not in names and dependency_name(str(project.project.get("name") or "")) != "ferrule":
            raise Quit(EXIT_FAILED, "the dependencies of the server do not list ferrule: elsewhere it could not start")
    root = project.root.resolve()
    for name, source in project.sources.items():
        if name in carried or not is_mapping(source):
            continue
        path: Any = source.get("path")
        if source.get("workspace") or (isinstance(path, str) and not (root / path).resolve().is_relative_to(root)):
            raise Quit(
                EXIT_FAILED,
                f"tool.uv.sources takes {name} from outside of the project, which other machines do not have: carry "
                f"it in the bundle with --with {name.replace('-', '_')}-….whl (uv build makes one)",
            )


def _carry_wheels(files: dict[str, bytes], wheels: Sequence[Path], notes: list[str]) -> None:
    """Add wheels to the files, and to ``pyproject.toml`` where they are taken from."""
    text = files["pyproject.toml"].decode("utf-8")
    for wheel in wheels:
        name = dependency_name(wheel.name.partition("-")[0])
        if not wheel.name.endswith("-none-any.whl"):
            notes.append(f"{wheel.name} is for one kind of system: the bundle is, too")
        files[f"wheels/{wheel.name}"] = wheel.read_bytes()
        text = _with_source(text, name, f"wheels/{wheel.name}")
    if wheels:
        files["pyproject.toml"] = text.encode("utf-8")
        if files.pop("uv.lock", None) is not None:
            notes.append("uv.lock is not packed: it does not know the packages of --with")


def _with_source(text: str, name: str, path: str) -> str:
    """Return ``pyproject.toml`` with a file as the source of a package, and all else as it is."""
    parsed = parse_toml(text)
    sources: Any = parsed.get("tool", {}).get("uv", {}).get("sources", {})
    for old in [key for key in sources if dependency_name(str(key)) == name]:
        # Only in one line below its header: the check below refuses every other form.
        text = re.sub(rf"(?m)^[ \t]*[\"']?{re.escape(old)}[\"']?[ \t]*=[ \t]*\{{.*\}}[ \t]*(?:#.*)?\n?", "", text)
        del sources[old]
    parsed.setdefault("tool", {}).setdefault("uv", {}).setdefault("sources", {})[name] = {"path": path}
    gap = "" if text.endswith("\n") or not text else "\n"
    made = f"{text}{gap}\n[tool.uv.sources.{quoted(name)}]\npath = {quoted(path)}\n"
    try:
        is_right = parse_toml(made) == parsed
    except FormatError:
        is_right = False
    if not is_right:
        raise Quit(
            EXIT_FAILED, f"the source of {name} cannot be changed in pyproject.toml: write [tool.uv.sources] as a table"
        )
    return made


def _entry_point(project: ServerProject, files: dict[str, bytes]) -> str:
    """Return the file that starts the server, and add one where the server's own does not."""
    is_module = (project.root / project.file).parent.joinpath("__init__.py").exists()
    # uv runs a file that has a block in an environment of the block, and not of pyproject.toml.
    has_block = project.is_single and project.text
    if project.attribute is None and not is_module and not has_block and _runs_stdio(files[project.file]):
        return project.file
    if _STARTER in files:
        raise Quit(EXIT_FAILED, f"{_STARTER} is the name of the file that starts the bundle: name yours otherwise")
    target = project.file if project.attribute is None else f"{project.file}:{project.attribute}"
    files[_STARTER] = _START.format(target=target).encode("utf-8")
    return _STARTER


def _runs_stdio(source: bytes) -> bool:
    """Return whether a file serves over stdio when it is run: ``app.run()`` below ``if __name__ == "__main__":``."""
    guarded = [
        node for node in ast.parse(source).body if isinstance(node, ast.If) and "__name__" in ast.dump(node.test)
    ]
    for line in (line for node in guarded for line in node.body):
        call = line.value if isinstance(line, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "run":
            given = [each.value if isinstance(each, ast.Constant) else None for each in call.args]
            return not call.keywords and given in ([], ["stdio"])
    return False
