"""GNS3's server, a FastAPI program that others published, called through its document by the official client.

It runs as its users run it, with its own database and token. The same requests are made over plain HTTP, with ids of
their own, and the answers compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

from tests.conftest import ROOT, peer_program
from tests.processes import free_port, wait_until_served

SERVER = Path(__file__).with_name("exposed_gns3.py")
CALLS = Path(__file__).with_name("mcp_calls_script.py")

pytestmark = [pytest.mark.peer, pytest.mark.slow]


class Case(NamedTuple):
    """One call, and the request that it stands for.

    Attributes:
        name: of the tool.
        arguments: of the call.
        request: method and path.
        body: of the request; ``None`` for none.
        status: of the answer.
    """

    name: str
    arguments: dict[str, Any]
    request: str
    body: dict[str, Any] | None = None
    status: int = 200


def cases(project: str, drawing: str, template: str) -> list[Case]:
    """A project from its creation to its end; nineteen operations, of which eleven write."""
    own, svg = {"project_id": project}, '<svg height="10" width="10"></svg>'
    one = {**own, "drawing_id": drawing}
    at = f"/v3/projects/{project}"
    symbol = ":/symbols/classic/router.svg"
    made = {"name": f"Project {project}", "project_id": project, "scene_width": 3000}
    drawn = {"drawing_id": drawing, "svg": svg, "x": -5, "y": 7}
    kind = {"template_id": template, "name": f"PC {template}", "template_type": "vpcs"}
    return [
        Case("get_version_v3_version_get", {}, "GET /v3/version"),
        Case("get_logged_in_user_v3_access_users_me_get", {}, "GET /v3/access/users/me"),
        Case("get_roles_v3_access_roles_get", {}, "GET /v3/access/roles"),
        Case("create_project_v3_projects_post", made, "POST /v3/projects", made, 201),
        Case("get_project_v3_projects_project_id_get", own, f"GET {at}"),
        Case("update_project_v3_projects_project_id_put", {**own, "grid_size": 50}, f"PUT {at}", {"grid_size": 50}),
        Case(
            "create_drawing_v3_projects_project_id_drawings_post", {**own, **drawn}, f"POST {at}/drawings", drawn, 201
        ),
        Case("get_drawings_v3_projects_project_id_drawings_get", own, f"GET {at}/drawings"),
        Case(
            "update_drawing_v3_projects_project_id_drawings_drawing_id_put",
            {**one, "z": 3},
            f"PUT {at}/drawings/{drawing}",
            {"z": 3},
        ),
        Case("lock_project_v3_projects_project_id_lock_post", own, f"POST {at}/lock", None, 204),
        Case("locked_project_v3_projects_project_id_locked_get", own, f"GET {at}/locked"),
        Case(
            "delete_drawing_v3_projects_project_id_drawings_drawing_id_delete",
            one,
            f"DELETE {at}/drawings/{drawing}",
            None,
            409,
        ),
        Case("unlock_project_v3_projects_project_id_unlock_post", own, f"POST {at}/unlock", None, 204),
        Case(
            "delete_drawing_v3_projects_project_id_drawings_drawing_id_delete",
            one,
            f"DELETE {at}/drawings/{drawing}",
            None,
            204,
        ),
        Case("create_template_v3_templates_post", {"body": kind}, "POST /v3/templates", kind, 201),
        Case("get_template_v3_templates_template_id_get", {"template_id": template}, f"GET /v3/templates/{template}"),
        Case(
            "delete_template_v3_templates_template_id_delete",
            {"template_id": template},
            f"DELETE /v3/templates/{template}",
            None,
            204,
        ),
        Case(
            "get_symbol_dimensions_v3_symbols_symbol_id_dimensions_get",
            {"symbol_id": symbol},
            f"GET /v3/symbols/{symbol}/dimensions",
        ),
        Case("close_project_v3_projects_project_id_close_post", own, f"POST {at}/close", None, 204),
        Case("delete_project_v3_projects_project_id_delete", own, f"DELETE {at}", None, 204),
        Case("get_project_v3_projects_project_id_get", own, f"GET {at}", None, 404),
    ]


VARYING = frozenset({"path", "created_at", "updated_at", "last_login"})
"""Members of answers that differ from one project, or from one moment, to the next."""


@contextmanager
def running(command: list[str], port: int, folder: Path, **environment: str) -> Iterator[None]:
    """A process that serves a port."""
    log = folder / f"log-{port}"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        )
    try:
        wait_until_served(process, port, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Gns3(NamedTuple):
    """A server that runs, and a token for it."""

    base_url: str
    token: str

    def request(self, request: str, body: Any = None) -> tuple[int, Any]:
        """Status and data of the answer to a request over plain HTTP."""
        method, path = request.split(" ")
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self.base_url + path, data, headers, method=method), timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")


@pytest.fixture(scope="module")
def gns3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gns3]:
    """The program, with a database of its own."""
    program = peer_program("gns3", "gns3server")
    folder = tmp_path_factory.mktemp("gns3")
    port = free_port()
    config = folder / "gns3_server.conf"
    config.write_text(f"[Server]\nhost = 127.0.0.1\nport = {port}\n")
    command = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with running(command, port, folder, HOME=str(folder), XDG_CONFIG_HOME=str(folder / "config")):
        found = Gns3(f"http://127.0.0.1:{port}", "")
        given = {"username": "admin", "password": "admin"}  # of a new installation, on loopback
        deadline = time.monotonic() + 60
        while True:
            status, answer = found.request("POST /v3/access/users/authenticate", given)
            if status == 200:
                break
            assert time.monotonic() < deadline, answer  # its database is made after it listens
            time.sleep(0.2)
        yield found._replace(token=answer["access_token"])


@pytest.fixture(scope="module")
def url(gns3: Gns3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of our server in front of it."""
    port = free_port()
    command = [sys.executable, str(SERVER), gns3.base_url, gns3.token, str(port)]
    with running(command, port, tmp_path_factory.mktemp("server"), PYTHONPATH=str(ROOT / "src")):
        yield f"http://127.0.0.1:{port}/mcp"


def same_in_all(value: Any, ids: tuple[str, ...]) -> Any:
    """Data without what differs from one run to the next."""
    if isinstance(value, list):
        return [same_in_all(part, ids) for part in value]
    if isinstance(value, dict):
        return {name: same_in_all(part, ids) for name, part in value.items() if name not in VARYING}
    if isinstance(value, str):
        for number, each in enumerate(ids):
            value = value.replace(each, f"<{number}>")
    return value


@pytest.mark.parametrize(("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_its_operations_answer_as_over_plain_http(
    gns3: Gns3, url: str, peer_python: str, mode: str, revision: str
) -> None:
    """Nineteen operations, reads and writes and refusals, by the official client and by plain requests."""
    ours, theirs = (tuple(str(uuid4()) for _ in range(3)) for _ in range(2))
    described = json.loads(urlopen(f"{gns3.base_url}/openapi.json", timeout=60).read())["paths"]
    calls = [(case.name, case.arguments) for case in cases(*ours)]
    done = subprocess.run(
        [peer_python, str(CALLS), mode, url, json.dumps(calls)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["protocol_version"] == revision
    assert len(seen["tools"]) == sum(len(item) for item in described.values()) > 150
    assert len({name for name, _ in calls}) >= 10
    for case, result in zip(cases(*theirs), seen["results"], strict=True):
        status, expected = gns3.request(case.request, case.body)
        assert status == case.status, (case, expected)
        assert result["is_error"] is (status >= 400), (case, result)
        if status >= 400:
            assert str(status) in result["text"]
            assert same_in_all(expected["message"], theirs) in same_in_all(result["text"], ours)
        elif status == 204:
            assert result["text"] == "Done"
        else:
            assert same_in_all(json.loads(result["text"]), ours) == same_in_all(expected, theirs), case
