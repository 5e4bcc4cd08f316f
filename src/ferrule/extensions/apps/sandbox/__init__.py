"""What test hosts with a browser need to show a view: the page around it, its policy, and what the browser refused.

For the inspector and for `ferrule.testing`. Source: MCP Apps 2026-01-26, "Sandbox proxy".
"""
