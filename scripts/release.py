"""What ``scripts/release`` does: see there for its options, and CONTRIBUTING.md for when to run it.

Nothing is uploaded: the last lines say with which command to do so. Every check says what it found, so that the output
of a dry run is also the release's report.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path

from changelog import ROOT, ChangesError, read_fragments, read_version, section, with_section, write_changelog

BIN = "Scripts" if os.name == "nt" else "bin"
# What a source distribution must hold for others to build, test and judge it.
SDIST_NEEDS = (
    *("CHANGELOG.md", "COMPATIBILITY.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml"),
    *("docs/index.md", "examples/server.py", "scripts/test", "src/ferrule/py.typed", "tests/conftest.py"),
)
FINAL_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


class NotReady(Exception):
    """Something must be mended before this can be released."""


def step(text: str) -> None:
    """Say what comes."""
    print(f"== {text}", flush=True)


def output_of(*command: str, cwd: Path = ROOT) -> str:
    """Run a command and give its output.

    Raises:
        NotReady: it failed; with what it said.
    """
    done = subprocess.run(command, cwd=cwd, capture_output=True, encoding="utf-8")
    if done.returncode != 0:
        raise NotReady(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


# -- the tree ----------------------------------------------------------------------------------------------------------


def check_tree(*, allow_dirty: bool) -> str:
    """Nothing uncommitted, a version that is new, and something to tell; gives the version."""
    step("the tree")
    version = read_version()
    if not FINAL_VERSION.fullmatch(version):
        raise NotReady(f"{version!r} in src/ferrule/_version.py is not a version such as 1.2.3 or 1.2.3rc1")
    changed = output_of("git", "status", "--porcelain").splitlines()
    if changed and not allow_dirty:
        raise NotReady("Commit or remove first:\n" + "\n".join(changed[:20]))
    if output_of("git", "tag", "--list", f"v{version}").strip():
        raise NotReady(f"There is a tag v{version} already")
    fragments = read_fragments(ROOT / "changes")
    text = section(version, "today", fragments)
    changelog = ROOT / "CHANGELOG.md"
    with_section(changelog.read_text(encoding="utf-8") if changelog.exists() else "", version, text)
    print(f"   version {version}, {len(fragments)} fragments, {len(changed)} uncommitted changes")
    return version


# -- the files ---------------------------------------------------------------------------------------------------------


def build(folder: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it and from nothing else."""
    step("building")
    tools = make_environment(folder / "tools", "build", "twine")
    source = folder / "source"
    # What git knows and nothing that lies about in the tree.
    source.mkdir()
    for name in output_of("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    output_of(str(tools), "-m", "build", "--outdir", str(folder / "dist"), str(source))
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    output_of(str(tools), "-m", "twine", "check", "--strict", str(sdist), str(wheel))
    for path in (sdist, wheel):
        print(f"   {path.name}: {path.stat().st_size / 1e6:.2f} MB")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path, version: str) -> None:
    """Everything of the package is in the wheel, nothing else is, and the sources are complete."""
    step("contents")
    package = output_of("git", "ls-files", "--cached", "--others", "--exclude-standard", "src/ferrule").splitlines()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    with tarfile.open(sdist) as archive:
        root = f"ferrule-{version}/"
        sources = [member.name.removeprefix(root) for member in archive.getmembers() if member.isfile()]
    problems = wheel_problems(names, package, version) + sdist_problems(sources, package)
    if problems:
        raise NotReady("\n".join(problems))
    data = [name for name in package if not name.endswith((".py", ".pyi"))]
    print(f"   wheel: {len(names)} files, of them {len(data)} not Python; source distribution: {len(sources)} files")


def wheel_problems(names: Iterable[str], package: Iterable[str], version: str) -> list[str]:
    """What is missing in a wheel, and what does not belong there.

    Args:
        names: of its files.
        package: the files of ``src/ferrule`` as git knows them.
    """
    found, wanted = set(names), {name.removeprefix("src/") for name in package}
    info = f"ferrule-{version}.dist-info/"
    wanted |= {f"{info}{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
    return [
        *(f"the wheel lacks {name}" for name in sorted(wanted - found)),
        *(f"the wheel should not hold {name}" for name in sorted(found - wanted)),
    ]


def sdist_problems(names: Iterable[str], package: Iterable[str]) -> list[str]:
    """What is missing in a source distribution, and what must not be in any."""
    found = set(names)
    wanted = {*SDIST_NEEDS, *package}
    unwanted = re.compile(r"(^|/)(\.venv|\.cache|__pycache__|node_modules|site|dist)/|\.pyc$")
    return [
        *(f"the source distribution lacks {name}" for name in sorted(wanted - found)),
        *(f"the source distribution should not hold {name}" for name in sorted(found) if unwanted.search(name)),
    ]


# -- trying them -------------------------------------------------------------------------------------------------------


def make_environment(folder: Path, *requirements: str) -> Path:
    """A virtual environment with these installed; gives its interpreter."""
    output_of(sys.executable, "-m", "venv", str(folder))
    python = folder / BIN / "python"
    output_of(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return python


def try_out(path: Path, folder: Path, version: str) -> None:
    """Install one file where nothing else is, and use it as a newcomer would."""
    step(f"trying {path.name}")
    began = time.monotonic()
    python = make_environment(folder / path.suffix[1:], str(path))
    print(f"   installed in {time.monotonic() - began:.1f} s")
    output_of(str(python), "-m", "pip", "check")
    work = folder / f"work-{path.suffix[1:]}"
    work.mkdir()
    (work / "calculator.py").write_text(readme_server(), encoding="utf-8")
    shutil.copy(ROOT / "scripts" / "release_check.py", work)
    # From a folder without the sources, so that what is imported is what was installed.
    print(output_of(str(python), "release_check.py", version, cwd=work), end="", flush=True)


def readme_server() -> str:
    """The ten lines that the README promises to work."""
    found = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    if found is None:
        raise NotReady("README.md shows no server")
    return found[1]


# -- the release -------------------------------------------------------------------------------------------------------


def publish(version: str, files: Iterable[Path]) -> None:
    """Write the changelog, commit, tag, and say what is left to a person."""
    step("the release")
    write_changelog(ROOT, datetime.datetime.now(datetime.UTC).date().isoformat(), drop_fragments=True)
    output_of("git", "add", "--all", "changes", "CHANGELOG.md")
    output_of("git", "commit", "--quiet", "--message", f"Release {version}", "--", "changes", "CHANGELOG.md")
    output_of("git", "tag", "--annotate", f"v{version}", "--message", f"Ferrule {version}")
    (ROOT / "dist").mkdir(exist_ok=True)
    kept = [shutil.copy(path, ROOT / "dist") for path in files]
    print(f"   committed, tagged v{version}; to publish it:")
    print(f"   git push --follow-tags && python -m twine upload {' '.join(os.path.relpath(path) for path in kept)}")


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="Make a release of Ferrule, or try to.")
    parser.add_argument("--dry-run", action="store_true", help="check everything, change nothing")
    parser.add_argument("--allow-dirty", action="store_true", help="with --dry-run: uncommitted changes do not matter")
    options = parser.parse_args()
    if options.allow_dirty and not options.dry_run:
        parser.error("--allow-dirty is for --dry-run only")
    try:
        version = check_tree(allow_dirty=options.allow_dirty)
        with tempfile.TemporaryDirectory(prefix="ferrule-release-") as scratch:
            sdist, wheel = build(Path(scratch))
            check_contents(sdist, wheel, version)
            for path in (wheel, sdist):
                try_out(path, Path(scratch), version)
            if not options.dry_run:
                publish(version, (sdist, wheel))
    except (NotReady, ChangesError) as error:
        print(f"not ready: {error}", file=sys.stderr)
        return 1
    step(f"{version} is ready; nothing was changed" if options.dry_run else f"{version} is made")
    return 0


if __name__ == "__main__":
    sys.exit(main())
