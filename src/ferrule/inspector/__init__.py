"""A page in the browser that shows and calls what a server offers, built on the client.

`ferrule dev` starts it. The page is a handful of static files without a build step; `web` serves the page and its
API, `access` checks each request, and `controller` carries the calls out.

Nothing below this package imports it, and neither ``import ferrule`` nor ``ferrule --help`` loads it.
"""

from __future__ import annotations

from ferrule.inspector.target import InspectedTarget
from ferrule.inspector.web import InspectorApp, new_token, run_inspector

__all__ = ["InspectedTarget", "InspectorApp", "new_token", "run_inspector"]
