"""Serves the API of a GNS3 server that runs: every operation of its document is a tool.

Usage: exposed_gns3.py BASE_URL TOKEN PORT
"""

from __future__ import annotations

import sys

from ferrule import MCPServer

base_url, token, port = sys.argv[1:]
server = MCPServer.from_openapi(
    f"{base_url}/openapi.json", base_url=base_url, auth=token, include="*", server={"tool_search": False}
)
server.run("http", port=int(port))
