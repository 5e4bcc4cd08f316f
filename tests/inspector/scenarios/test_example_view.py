"""The example of a view, in a browser: its page draws, and its slider calls the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.inspector.shown_views import shown as shown
from tests.modules import load_file

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "apps"


def test_the_chart_is_drawn_and_its_slider_calls_the_server(shown: Any) -> None:
    """As the example promises, in thirty lines."""
    view = shown(load_file(EXAMPLES / "chart.py", "example_app_chart").app, "wave", {"damping": 0.5})
    line, slider = view.frame.locator("#line"), view.frame.locator("#damping")
    view.frame.locator("#line[points^='0,']").wait_for(state="attached")
    assert slider.input_value() == "0.5"
    first = line.get_attribute("points")
    assert len(first.split()) == 100
    slider.fill("0")
    view.frame.locator(f"#line:not([points='{first}'])").wait_for(state="attached")
    calls = [each.body["params"] for each in view.view.messages if each.body.get("method") == "tools/call"]
    assert calls == [{"name": "wave", "arguments": {"damping": 0}}]
    lines = sum(len(path.read_text().splitlines()) for path in EXAMPLES.glob("chart.*"))
    assert lines <= 32
