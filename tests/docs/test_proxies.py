"""The proxy configurations that the page shows, with the real nginx and Caddy where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from ferrule import Client, Context, MCPError, MCPServer
from tests.auth.support import serving
from tests.processes import free_port

CONFIGURATIONS = Path(__file__).resolve().parents[2] / "docs" / "snippets" / "proxy"


def nginx(folder: Path, port: int, behind: int) -> list[str]:
    """The page's server block, on a free port and without TLS."""
    text = (CONFIGURATIONS / "nginx.conf").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if "ssl_certificate" not in line]
    text = "\n".join(lines).replace("listen 443 ssl", f"listen 127.0.0.1:{port}").replace(":8000", f":{behind}")
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off; gzip on; {places}\n{text} }}",
        encoding="utf-8",
    )
    return ["nginx", "-c", str(config), "-p", str(folder), "-e", str(folder / "error.log")]


def caddy(folder: Path, port: int, behind: int) -> list[str]:
    """The page's site, on a free port and without TLS."""
    text = (CONFIGURATIONS / "Caddyfile").read_text(encoding="utf-8")
    text = text.replace("mcp.example.com", f"http://localhost:{port}").replace(":8000", f":{behind}")
    config = folder / "Caddyfile"
    config.write_text("{\n\tadmin off\n}\n" + text, encoding="utf-8")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(config)]


@asynccontextmanager
async def behind(make: str, folder: Path) -> AsyncIterator[tuple[str, MCPServer, anyio.Semaphore]]:
    """A server behind a proxy: the URL that clients use, the server, and what a client releases per progress."""
    program = shutil.which(make)
    if program is None:
        pytest.skip(f"{make} is not installed")
    app = MCPServer("stock")
    came = anyio.Semaphore(0)

    @app.tool
    async def slow(ctx: Context) -> str:
        for number in range(1, 4):
            await ctx.progress(number, 3)
            await came.acquire()  # goes on when the client has it: a proxy that collects would hold up the call
        return "done"

    endpoint = app.asgi(allowed_hosts=["localhost"])
    async with serving(endpoint, on_drain=endpoint.drain) as server_port:
        port = free_port()
        command = {"nginx": nginx, "caddy": caddy}[make](folder, port, server_port)
        environment = {**os.environ, "HOME": str(folder)}
        process = subprocess.Popen([program, *command[1:]], cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        try:
            with anyio.fail_after(30):
                while True:
                    assert process.poll() is None
                    try:
                        await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                        break
                    except OSError:
                        await anyio.sleep(0.05)
            yield f"http://localhost:{port}/mcp", app, came
        finally:
            process.terminate()
            process.wait(30)
            await endpoint.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("make", ["nginx", "caddy"])
async def test_nothing_is_held_back(make: str, mode: str, tmp_path: Path) -> None:
    """Progress arrives while the tool runs, and a subscription gets a change at once."""
    async with behind(make, tmp_path) as (url, app, came):
        async with Client(url, mode=mode, proxy=None) as client:
            with anyio.fail_after(60):
                done = await client.call_tool("slow", on_progress=lambda *_: came.release())
            assert done.text == "done"
            async with client.listen(tools=True) as changes:
                app.add_tool(lambda: 1, name="new")
                with anyio.fail_after(30):
                    assert (await anext(changes)).kind == "tools"


@pytest.mark.anyio
async def test_a_name_that_is_not_passed_on_is_refused(tmp_path: Path) -> None:
    """Without `proxy_set_header Host` the server gets the name of the upstream."""
    async with behind("nginx", tmp_path) as (url, _, _):
        with pytest.raises(MCPError, match="names a host that this server does not serve"):
            await Client(url.replace("localhost", "127.0.0.1"), proxy=None).connect()
