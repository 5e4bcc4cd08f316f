"""The changelog and the checks of a release; ``scripts/release --dry-run`` itself needs the package index."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the changelog."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("changelog")


@pytest.fixture
def release(changes: Any) -> Any:
    """The module of the release."""
    return importlib.import_module("release")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small source tree with two fragments."""
    (tmp_path / "src" / "ferrule").mkdir(parents=True)
    (tmp_path / "src" / "ferrule" / "_version.py").write_text('"""The version."""\n\n__version__ = "1.2.0"\n')
    folder = tmp_path / "changes"
    folder.mkdir()
    (folder / "README.md").write_text("# Not a fragment\n")
    (folder / "saw.added.md").write_text("A saw\ncuts bars.\n")
    (folder / "press.security.md").write_text("The press stops when it is opened.\n")
    return tmp_path


def test_every_fragment_can_be_released(changes: Any, project_root: Path) -> None:
    """Found when it is written, not on the day of the release."""
    assert changes.read_fragments(project_root / "changes") is not None


def test_a_section_says_first_what_makes_somebody_act(changes: Any, tree: Path) -> None:
    """Kinds in a fixed order, each fragment one item, whatever its lines."""
    text = changes.section("1.2.0", "2027-01-02", changes.read_fragments(tree / "changes"))
    assert text == (
        "## 1.2.0 (2027-01-02)\n\n### Security\n\n- The press stops when it is opened.\n\n"
        "### Added\n\n- A saw\n  cuts bars.\n"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("saw.md", "A saw."),
        ("saw.improved.md", "A saw."),
        ("Saw.added.md", "A saw."),
        ("saw.added.txt", "A saw."),
        ("saw.added.md", ""),
        ("saw.added.md", "A saw"),
        ("saw.added.md", "# Saw\nA saw."),
        ("saw.added.md", "- A saw."),
    ],
)
def test_an_invalid_fragment_is_named(changes: Any, tmp_path: Path, name: str, text: str) -> None:
    """A wrong kind would be left out in silence."""
    (tmp_path / name).write_text(text)
    with pytest.raises(changes.ChangesError, match=name):
        changes.read_fragments(tmp_path)


def test_a_release_without_changes_is_none(changes: Any) -> None:
    """Nothing to tell, nothing to release."""
    with pytest.raises(changes.ChangesError):
        changes.section("1.2.0", "2027-01-02", [])


def test_the_changelog_grows_at_the_top_and_is_released_once(changes: Any, tree: Path) -> None:
    """First shown as not yet released, then with its date; what was before stays; fragments go with the release."""
    (tree / "CHANGELOG.md").write_text(
        "# Changes\n\nAn old head.\n\n## 1.1.0 (2026-12-01)\n\n### Fixed\n\n- A tooth.\n"
    )
    for _ in range(2):  # written again, it is replaced
        changes.write_changelog(tree, changes.UNRELEASED, drop_fragments=False)
    text = (tree / "CHANGELOG.md").read_text()
    assert text.startswith(changes.HEAD)
    assert "An old head" not in text
    assert text.count("## 1.2.0 (not yet released)") == 1
    assert text.endswith("## 1.1.0 (2026-12-01)\n\n### Fixed\n\n- A tooth.\n")

    changes.write_changelog(tree, "2027-01-02", drop_fragments=True)
    text = (tree / "CHANGELOG.md").read_text()
    assert "not yet released" not in text
    assert text.index("## 1.2.0 (2027-01-02)") < text.index("## 1.1.0")
    assert [path.name for path in (tree / "changes").iterdir()] == ["README.md"]

    (tree / "changes" / "file.fixed.md").write_text("A file.")
    with pytest.raises(changes.ChangesError, match=r"1\.2\.0 already"):
        changes.write_changelog(tree, "2027-01-03", drop_fragments=True)
    assert (tree / "changes" / "file.fixed.md").exists()


def test_a_wheel_holds_the_package_and_nothing_else(release: Any) -> None:
    """Data files that a build leaves out are missed only by users; a stray file is shipped to all of them."""
    package = ["src/ferrule/__init__.py", "src/ferrule/py.typed", "src/ferrule/inspector/static/page.html"]
    info = "ferrule-1.2.0.dist-info/"
    complete = [name.removeprefix("src/") for name in package]
    complete += [info + name for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")]
    assert release.wheel_problems(complete, package, "1.2.0") == []
    assert release.wheel_problems(complete[:2] + complete[3:], package, "1.2.0") == [
        "the wheel lacks ferrule/inspector/static/page.html"
    ]
    assert release.wheel_problems([*complete, "tests/x.py"], package, "1.2.0") == [
        "the wheel should not hold tests/x.py"
    ]


def test_the_sources_are_complete_and_clean(release: Any) -> None:
    """Packagers build and test from this file."""
    complete = [*release.SDIST_NEEDS, "src/ferrule/x.py"]
    assert release.sdist_problems(complete, ["src/ferrule/x.py"]) == []
    assert release.sdist_problems(complete[1:], []) == ["the source distribution lacks CHANGELOG.md"]
    (problem,) = release.sdist_problems([*complete, "docs/__pycache__/x.pyc"], [])
    assert "should not hold docs/__pycache__/x.pyc" in problem


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_tree_must_be_ready_and_a_release_leaves_it_so(
    release: Any, changes: Any, tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Uncommitted changes, a used tag and a strange version are refused; a release is one commit and one tag."""

    def git(*arguments: str) -> str:
        options = ("-c", "user.name=A", "-c", "user.email=a@example.invalid")
        done = subprocess.run(["git", *options, *arguments], cwd=tree, check=True, capture_output=True, text=True)
        return done.stdout

    for name, value in (("AUTHOR", "A"), ("COMMITTER", "A")):
        monkeypatch.setenv(f"GIT_{name}_NAME", value)
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.invalid")
    monkeypatch.setattr(release, "ROOT", tree)
    monkeypatch.setattr(release, "read_version", lambda: changes.read_version(tree))
    run = release.output_of
    monkeypatch.setattr(release, "output_of", lambda *command, cwd=tree: run(*command, cwd=cwd))
    git("init", "--quiet")
    with pytest.raises(release.NotReady, match=r"changes/"):
        release.check_tree(allow_dirty=False)
    assert release.check_tree(allow_dirty=True) == "1.2.0"
    git("add", ".")
    git("commit", "--quiet", "--message", "Begin")
    assert release.check_tree(allow_dirty=False) == "1.2.0"

    built = tree.parent / "ferrule-1.2.0.tar.gz"
    built.write_bytes(b"")
    release.publish("1.2.0", [built])
    assert git("log", "--format=%s").splitlines() == ["Release 1.2.0", "Begin"]
    assert git("tag").split() == ["v1.2.0"]
    assert git("status", "--porcelain").splitlines() == ["?? dist/"]
    assert "twine upload" in capsys.readouterr().out
    with pytest.raises(release.NotReady, match=r"v1\.2\.0 already"):
        release.check_tree(allow_dirty=True)

    (tree / "src" / "ferrule" / "_version.py").write_text('__version__ = "1.3.dev"\n')
    with pytest.raises(release.NotReady, match="not a version"):
        release.check_tree(allow_dirty=True)
