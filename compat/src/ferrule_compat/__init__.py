"""Servers of the official MCP SDK 1.x on Ferrule, unchanged.

`ferrule_compat.runner` starts one: it makes `ferrule_compat.names` answer every import of ``mcp`` and ``mcp.*`` in this
process, and then runs the server's own program. The other modules are what those names stand for, over Ferrule's public
API. Importing this package changes nothing.
"""

__version__ = "0.1.0"
