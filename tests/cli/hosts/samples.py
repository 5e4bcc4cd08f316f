"""Configurations of the hosts whose edits are tested in process: place below the home folder, and a person's file."""

from __future__ import annotations

CODEX = '''\
# my Codex
model = "gpt"

[mcp_servers.docs]   # do not touch
command = "npx"
args = ["-y", "docs"]

[mcp_servers.docs.env]
TOKEN = "t"

# what I trust
[projects."/home/me/[mcp_servers.fake]"]
trust_level = "trusted"
note = """
[mcp_servers.fake]
"""
'''

GOOSE = """\
# my Goose
GOOSE_PROVIDER: anthropic
extensions:
  developer:
    bundled: true
    enabled: true
    name: developer
    type: builtin
  # documents
  docs:
    enabled: true
    type: stdio
    name: docs
    cmd: npx
    args: [-y, docs]   # no questions
    envs:
      TOKEN: t
    timeout: 300
GOOSE_MODEL: claude # the last line
"""

ZED = """\
// my Zed
{
  "theme": "One Dark", // dark
  "context_servers": {
    "docs": {
      "source": "custom",
      "command": { "path": "npx", "args": ["-y", "docs"], "env": { "TOKEN": "t" } },
    },
  },
  "vim_mode": true,
}
"""

COMMON = """\
{
  "mcpServers": {
    "docs": { "command": "npx", "args": ["-y", "docs"], "env": { "TOKEN": "t" } }
  }
}
"""

COPILOT = COMMON.replace('{ "command"', '{ "type": "local", "tools": ["*"], "command"')

OTHERS: dict[str, tuple[str, str]] = {
    "codex": (".codex/config.toml", CODEX),
    "copilot-cli": (".copilot/mcp-config.json", COPILOT),
    "zed": (".config/zed/settings.json", ZED),
    "goose": (".config/goose/config.yaml", GOOSE),
    "lm-studio": (".lmstudio/mcp.json", COMMON),
    "antigravity": (".gemini/antigravity/mcp_config.json", COMMON),
    "antigravity-cli": (".gemini/config/mcp_config.json", COMMON),
}
"""Host → path below the home folder, and the text; each has a server ``docs``."""
