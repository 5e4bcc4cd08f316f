"""Compares example servers of the official repository's 1.x branch over HTTP: on ``mcp`` 1.x and on Ferrule.

    python compat/published/examples.py CLONE [--ref v1.x]

CLONE is a git directory of that repository; the files are read from it and kept nowhere. The environments are those of
published.py.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from published import CLIENTS, counts, differences, environment, seen_by, variables, with_compat

EXAMPLES: dict[str, list[Any]] = {
    "examples/snippets/servers/basic_tool.py": ["get_weather", {"city": "Oslo"}],
    "examples/snippets/servers/structured_output.py": ["get_location", {"address": "x"}],
    "examples/snippets/servers/direct_call_tool_result.py": ["validated_tool", {}],
    "examples/snippets/servers/lifespan_example.py": ["query_db", {}],
    "examples/snippets/servers/streamable_config.py": ["greet", {"name": "Ada"}],
    "examples/fastmcp/parameter_descriptions.py": ["greet_user", {"name": "Ada", "times": 2}],
    "examples/fastmcp/complex_inputs.py": ["name_shrimp", {"tank": {"shrimp": [{"name": "x"}]}, "extra_names": ["y"]}],
    "examples/snippets/servers/tool_progress.py": ["long_running_task", {"task_name": "x", "steps": 2}],
    "examples/snippets/servers/basic_prompt.py": None,  # type: ignore[dict-item]
    "examples/snippets/servers/completion.py": None,  # type: ignore[dict-item]
}
# Each defines `mcp`, and only some of them run it.
LAUNCHER = """
import runpy, sys
mcp = runpy.run_path(sys.argv[1], run_name="example")["mcp"]
mcp.settings.port = int(sys.argv[2])
mcp.run(transport="streamable-http")
"""
START_S = 60


@contextmanager
def serving(line: list[str], port: int, work: str) -> Iterator[str]:
    """Yield the URL of a server while it runs."""
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=variables(work)) as process:
        try:
            end = time.monotonic() + START_S
            while time.monotonic() < end and process.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Compare the examples; 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("clone")
    parser.add_argument("--ref", default="v1.x")
    given = parser.parse_args()
    python = environment("examples", ["mcp<2"]) / "bin" / "python"
    with_compat(python.parents[1])
    failed = False
    with tempfile.TemporaryDirectory() as work:
        launcher = Path(work) / "launcher.py"
        launcher.write_text(LAUNCHER)
        for path, call in EXAMPLES.items():
            shown = subprocess.run(
                ["git", "-C", given.clone, "show", f"{given.ref}:{path}"], capture_output=True, check=True
            )
            file = Path(work) / Path(path).name
            file.write_bytes(shown.stdout)
            found: dict[str, dict[str, Any]] = {}
            for name, start in {"sdk": [str(python)], "ferrule": [str(python), "-m", "ferrule_compat"]}.items():
                port = free_port()
                with serving([*start, str(launcher), str(file), str(port)], port, work) as url:
                    for client in ("legacy",) if name == "sdk" else CLIENTS:
                        found[f"{name} {client}"] = seen_by(client, {"call": call}, work, [url])
            expected = found.pop("sdk legacy")
            faults = {client: differences(expected, each) for client, each in found.items()}
            failed = failed or any(faults.values())
            print(
                path,
                expected.get("error") or counts(expected),
                "same" if not any(faults.values()) else json.dumps(faults),
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
