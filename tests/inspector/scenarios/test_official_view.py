"""A page made with the official package (`@modelcontextprotocol/ext-apps`), served by `@app.ui`, in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule import MCPServer
from tests.inspector.shown_views import shown as shown

PAGE = """<!doctype html><p id=said></p><script type="application/json" id=code>CODE</script><script>
const say = (...values) => { said.textContent += JSON.stringify(values) + ";"; };
(async () => {
  const code = JSON.parse(document.getElementById("code").textContent);
  const { App } = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  const app = new App({ name: "official", version: "1" }, { availableDisplayModes: ["inline", "fullscreen"] });
  app.ontoolinput = (params) => say("input", params.arguments);
  app.ontoolresult = async (result) => {
    say("result", result.structuredContent);
    say((await app.callServerTool({ name: "pick", arguments: { day: 2 } })).structuredContent);
    say(await app.requestDisplayMode({ mode: "fullscreen" }));
    await app.openLink({ url: "https://x.example" });
    await app.sendMessage({ role: "user", content: [{ type: "text", text: "hi" }] });
    await app.updateModelContext({ structuredContent: { day: 2 } });
    await app.sendLog({ level: "info", data: "x" });
    say("end");
  };
  await app.connect();
})().catch((error) => say(error.message));
</script>"""


@pytest.mark.peer
def test_a_page_of_the_official_package_works(shown: Any, ext_apps: Path) -> None:
    """Its class checks each message of the host, and structured content must be an object."""
    code = (ext_apps / "dist/src/app-with-deps.js").read_text()
    app: MCPServer[Any] = MCPServer("x")

    @app.ui(PAGE.replace("CODE", json.dumps(code).replace("<", "\\u003c")))
    def board(days: int) -> list[int]:
        return [20] * days

    @app.ui(visibility="app")
    def pick(day: int) -> str:
        return f"picked {day}"

    view = shown(app, "board", {"days": 2})
    view.frame.locator("#said").filter(has_text='"end"').wait_for()
    said = view.frame.locator("#said").text_content()
    assert said == (
        '["input",{"days":2}];["result",{"result":[20,20]}];[{"result":"picked 2"}];[{"mode":"fullscreen"}];["end"];'
    )
    assert view.view.links == ["https://x.example"]
    assert view.view.model_context == {"structuredContent": {"day": 2}}
    assert [each["data"] for each in view.view.logged] == ["x"]
