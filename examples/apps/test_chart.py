"""The chart in a browser: pytest examples/apps/test_chart.py (needs the extra `browser`; skipped without a browser)"""

from pathlib import Path
from runpy import run_path

import pytest

from ferrule.testing import app_host

app = run_path(str(Path(__file__).with_name("chart.py")))["app"]


@pytest.fixture
def anyio_backend() -> str:
    """The driver of the browser runs on asyncio."""
    return "asyncio"


@pytest.mark.anyio
async def test_the_slider_changes_the_line() -> None:
    """The reader moves the slider; the page calls the server, and draws the line anew."""
    async with app_host(app, browser=True, context={"theme": "dark"}) as host:
        view = await host.open("wave", {"damping": 0.5})
        line = view.frame.locator("#line")
        await view.frame.locator("#line[points]").wait_for(state="attached")
        before = await line.get_attribute("points")
        await view.fill("#damping", "0")
        await view.frame.locator(f"#line:not([points='{before}'])").wait_for(state="attached")
        view.check()  # the policy, the messages, the script
