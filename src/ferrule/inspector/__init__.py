"""A page in the browser that lists and calls the features of a server, with the client of this library.

`ferrule dev` starts it. The page is a few static files without a build step; `web` serves the page and its API,
`access` checks each request, and `controller` does the calls.

No lower layer imports this package, and neither ``import ferrule`` nor ``ferrule --help`` loads it.
"""

from __future__ import annotations

from ferrule.inspector.target import InspectedTarget
from ferrule.inspector.web import InspectorApp, new_token, run_inspector

__all__ = ["InspectedTarget", "InspectorApp", "new_token", "run_inspector"]
