"""What a server does before its first answer, counted in a process of its own: modules, generated code, patterns."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

MAX_OWN_MODULES = 155
"""Modules of Ferrule in the process of a stdio server that has answered a call; each costs some 0.2 ms."""

PROGRAM = """
import dataclasses, gc, re._compiler, sys

generated, patterns, collections = [], [], []

def author():
    "The module that is being imported, or the first on the stack that is not the standard library's."
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "").partition(".")[0]
        is_ours = name not in sys.stdlib_module_names and name != "__main__"
        if name and (is_ours or frame.f_code.co_name == "<module>"):
            return frame.f_globals["__name__"]
        frame = frame.f_back
    return "nobody"

def watch(event, arguments):
    if event == "exec":
        code = arguments[0]
        is_module = code.co_name == "<module>" and code.co_filename != "<string>"
        if not is_module:
            generated.append((author(), "exec", code.co_filename))
    elif event == "compile" and not str(arguments[1]).endswith(".py"):
        generated.append((author(), "compile", str(arguments[0])[:80]))

def compiled(pattern, flags=0, compile=re._compiler.compile):
    patterns.append((author(), str(pattern)))
    return compile(pattern, flags)

re._compiler.compile = compiled
sys.addaudithook(watch)

@dataclasses.dataclass
class Weather:
    degrees: float
    words: list[str]

gc.collect()
gc.callbacks.append(lambda phase, found: phase == "start" and collections.append(len(gc.get_objects(0))))

from ferrule import MCPServer

young = len(gc.get_objects(0)) + len(gc.get_objects(1))

from ferrule.wire.codec import encode

app = MCPServer("counted")

@app.tool
async def weather(city: str) -> Weather:
    return Weather(21.5, [city])

@app.tool
async def facts(probe: str) -> str:
    "Tell what was done so far."
    if probe:
        exec(probe)
    return encode({
        "modules": sorted(sys.modules), "generated": generated, "patterns": patterns,
        "young": [young], "collections": collections,
    }).decode()

app.run()
print("loaded at the end:", [name for name in sys.modules if name.startswith("anyio._backends.")], file=sys.stderr)
"""

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def started(probe: str = "") -> dict[str, list[Any]]:
    """The facts that a new stdio server reports in its first call, after one list."""
    call = {"name": "facts", "arguments": {"probe": probe}}
    requests = [("tools/list", {}), ("tools/call", call)]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": ENVELOPE}})
        for id, (method, params) in enumerate(requests)
    ]
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60
    )
    answers = {answer["id"]: answer for answer in map(json.loads, process.stdout.splitlines())}
    told: dict[str, list[Any]] = json.loads(answers[1]["result"]["content"][0]["text"])
    told["last words"] = process.stderr.splitlines()[-1:]
    return told


@pytest.fixture(scope="module")
def facts() -> dict[str, list[Any]]:
    return started()


def ours(found: list[list[str]]) -> list[list[str]]:
    return [each for each in found if each[0].partition(".")[0] == "ferrule"]


_EMPTY_FUNCTION = "def __create_fn__():\\n\\n return ()"
"""What Python 3.13 and later compile for a dataclass none of whose methods they have to write."""


def test_no_code_is_generated_before_the_first_answer(facts: dict[str, list[Any]]) -> None:
    """Dataclasses, named tuples and annotations in quotes compile source at each start: a third of it once was that."""
    # What is executed was compiled before.
    compiled = [each for each in ours(facts["generated"]) if each[1] == "compile"]
    assert [each for each in compiled if _EMPTY_FUNCTION not in each[2]] == []


def test_no_pattern_is_compiled_before_the_first_answer(facts: dict[str, list[Any]]) -> None:
    """`ferrule.wire.patterns` puts it off."""
    assert ours(facts["patterns"]) == []


def test_a_stdio_server_loads_few_modules(facts: dict[str, list[Any]]) -> None:
    """Nothing of HTTP, of tasks or of clients, and of other packages those that it stands on."""
    modules = facts["modules"]
    own = [name for name in modules if name.partition(".")[0] == "ferrule"]
    assert 50 < len(own) <= MAX_OWN_MODULES, own
    packages = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names)
    assert packages <= {"__main__", "_distutils_hack", "anyio", "ferrule", "msgspec", "sniffio", "typing_extensions"}
    assert {"json", "pathlib", "ipaddress", "urllib.parse", "anyio._backends._asyncio"}.isdisjoint(modules)
    assert not [name for name in own if name.startswith(("ferrule.client", "ferrule.transports.asgi"))]


def test_the_garbage_collector_does_not_search_what_imports_made(facts: dict[str, list[Any]]) -> None:
    """It went through all modules 20 times before the first answer, which took a tenth of the start."""
    assert facts["young"][0] < 1_000
    assert sum(facts["collections"]) < 12_000, facts["collections"]


def test_ending_loads_nothing_that_serving_did_not_need(facts: dict[str, list[Any]]) -> None:
    """Loading the backend of anyio takes 10 ms; without unsent output and open stores it is not needed."""
    assert facts["last words"] == ["loaded at the end: []"]


def test_the_counters_notice_what_they_forbid() -> None:
    """A test that cannot fail is a defect."""
    told = started(
        "import ferrule.wire.struct as module\n"
        "exec('import dataclasses, re', vars(module))\n"
        'exec(\'def make():\\n  dataclasses.make_dataclass("A", ["a"])\\n  re.compile("[a-c]+z")\', vars(module))\n'
        "module.make()"
    )
    assert ours(told["generated"])
    assert ours(told["patterns"]) == [["ferrule.wire.struct", "[a-c]+z"]]
