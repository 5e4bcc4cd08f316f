"""Run by ``scripts/release`` inside an environment that holds one installed Ferrule and nothing else.

Beside it lies ``calculator.py``, the ten lines of the README. Uses what was installed as a newcomer would: the server
over stdio and HTTP in both eras, the command, the types, and the size of it all. Only the standard library and Ferrule.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.metadata import distribution, distributions
from importlib.resources import files
from pathlib import Path

MAX_DISTRIBUTIONS = 20
MAX_MEGABYTES = 45
INSTALLERS = {"pip", "setuptools", "wheel"}  # what a fresh environment may hold by itself
COMMAND = str(Path(sys.executable).with_name("ferrule"))


def report(text: str) -> None:
    """One line of the report."""
    print(f"   {text}", flush=True)


def command(*arguments: str) -> str:
    """What ``ferrule …`` prints."""
    done = subprocess.run([COMMAND, *arguments], capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0, f"ferrule {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def check_metadata(version: str) -> None:
    """Version, licence, types, and every file that the record names."""
    import ferrule

    installed = distribution("ferrule")
    assert "site-packages" in str(ferrule.__file__), f"imported from {ferrule.__file__}"
    assert ferrule.__version__ == installed.version == version, (ferrule.__version__, installed.version)
    assert installed.metadata["License-Expression"] == "Apache-2.0"
    recorded = installed.files or []
    assert any(file.name == "LICENSE" and "Apache License" in file.read_text() for file in recorded)
    assert files("ferrule").joinpath("py.typed").is_file()
    missing = [str(file) for file in recorded if not Path(str(file.locate())).exists()]
    assert not missing, missing
    data = [file for file in recorded if file.parts[0] == "ferrule" and file.suffix not in (".py", ".pyc")]
    report(f"version {version}, Apache-2.0, py.typed; {len(data)} data files, all there")


def check_size() -> None:
    """The promise of the README: few distributions, few megabytes.

    The limit is for what the wheels hold. Bytecode is shown beside it: pip makes it when it installs and uv when it is
    asked to, and how much it is depends on the interpreter.
    """
    sizes: dict[str, int] = {}
    bytecode = 0
    for found in distributions():
        name = str(found.metadata["Name"]).lower()
        if name in INSTALLERS:
            continue
        sizes[name] = 0
        for path in (Path(str(file.locate())) for file in found.files or []):
            size = path.stat().st_size if path.is_file() else 0
            bytecode += size * (path.suffix == ".pyc")
            sizes[name] += size * (path.suffix != ".pyc")
    megabytes = sum(sizes.values()) / 1e6
    limits = f"at most {MAX_DISTRIBUTIONS} and {MAX_MEGABYTES}"
    report(f"{len(sizes)} distributions, {megabytes:.1f} MB ({limits}), and {bytecode / 1e6:.1f} MB of bytecode")
    assert len(sizes) <= MAX_DISTRIBUTIONS, sorted(sizes)
    assert megabytes <= MAX_MEGABYTES, sorted(sizes.items(), key=lambda item: -item[1])


def check_command() -> None:
    """The command line on the ten lines."""
    assert "call" in command("--help")
    assert "add" in command("list", "calculator.py")
    assert command("call", "calculator.py", "add", "a=2", "b=40").strip() == "42"
    report("ferrule --help, list, call")


async def check_eras() -> None:
    """The ten lines, called by the client over both transports in both eras."""
    from ferrule import Client, StdioServer

    async def ask(target: object, mode: str, over: str) -> None:
        async with Client(target, mode=mode) as client:
            result = await client.call_tool("add", {"a": 2, "b": 40}, result_type=int)
            assert result.data == 42, result
            report(f"add(2, 40) = {result.data} over {over}, {client.protocol_version}")

    for mode in ("legacy", "auto"):
        await ask(StdioServer(sys.executable, ["calculator.py"]), mode, "stdio")
    serving = (
        "import calculator; calculator.app.run('http', port=0, on_started=lambda _, port: print(port, flush=True))"
    )
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", serving, stdout=asyncio.subprocess.PIPE)
    try:
        assert server.stdout is not None
        port = int(await asyncio.wait_for(server.stdout.readline(), 30))
        for mode in ("legacy", "auto"):
            await ask(f"http://127.0.0.1:{port}/mcp", mode, "HTTP")
    finally:
        server.terminate()
        await server.wait()


def main() -> None:
    """All of it; an assertion says what is wrong."""
    check_metadata(sys.argv[1])
    check_size()
    check_command()
    asyncio.run(check_eras())


if __name__ == "__main__":
    main()
