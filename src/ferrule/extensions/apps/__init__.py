"""Apps: tools whose results the host shows in a page (MCP Apps, ``io.modelcontextprotocol/ui``).

==================================  ===================================================================================
`Apps`                              the extension, for its options; ``@app.ui`` adds it
`CLIENT_SETTINGS`                   what a client that shows pages declares: ``Client(…, extensions=CLIENT_SETTINGS)``
`Table`, `Chart`, `ToolForm`,       ready views, made from the types of tools: ``@app.ui(Table())``
`Approval`
`PageError`                         why a page cannot be packaged, with file and line
`view_script`                       the script of pages, which ``<script src="ferrule:view"></script>`` inserts
`open_page`                         for hosts: the page of a tool (`OpenedPage`), the policy that a host applies
                                    (`UiPolicy`), and what other hosts would refuse (`ViewFinding`)
`problems_of`, `problems_of_result` for hosts: what is wrong with a message between view and host, or with an answer
==================================  ===================================================================================

Source: MCP Apps 2026-01-26.
"""

from __future__ import annotations

from ferrule.extensions.apps.dialect import problems_of, problems_of_result
from ferrule.extensions.apps.errors import PageError
from ferrule.extensions.apps.extension import CLIENT_SETTINGS, Apps
from ferrule.extensions.apps.opening import OpenedPage, ViewFinding, open_page
from ferrule.extensions.apps.page import MIME_TYPE
from ferrule.extensions.apps.policy import UiPolicy
from ferrule.extensions.apps.view_script import view_script
from ferrule.extensions.apps.views import Approval, Chart, Table, ToolForm
from ferrule.protocol.capabilities import APPS_EXTENSION

__all__ = [
    "APPS_EXTENSION",
    "CLIENT_SETTINGS",
    "MIME_TYPE",
    "Approval",
    "Apps",
    "Chart",
    "OpenedPage",
    "PageError",
    "Table",
    "ToolForm",
    "UiPolicy",
    "ViewFinding",
    "open_page",
    "problems_of",
    "problems_of_result",
    "view_script",
]
