"""An agent on Claude with the tools of MCP servers. `pip install anthropic`, and the key in ANTHROPIC_API_KEY.

python examples/agents/claude.py "Where is it warmest in July?" [mcp.json or a script]
"""

import asyncio
import sys
from pathlib import Path

from anthropic import AsyncAnthropic

from ferrule import Client
from ferrule.bridges import ToolUse

SERVERS = Path(__file__).parents[1] / "weather.py"


def allow(use: ToolUse) -> bool:
    """Let a tool that only reads be called, and ask for any other."""
    reads = use.tool.annotations is not None and use.tool.annotations.read_only_hint
    return bool(reads) or input(f"Call {use.name} with {dict(use.arguments)}? [y/n] ") == "y"


async def main(question: str, servers: str = str(SERVERS), model: str = "claude-opus-5") -> None:
    """Ask until the model calls nothing more, at most 20 times."""
    claude = AsyncAnthropic()
    messages: list = [{"role": "user", "content": question}]
    async with Client(servers) as client:
        for _ in range(20):
            tools = await client.tools_for("anthropic", budget=20_000)
            response = await claude.messages.create(model=model, max_tokens=4000, messages=messages, tools=tools)
            messages.append({"role": "assistant", "content": response.content})
            answer = await client.answer(response, approve=allow)
            if not answer:
                print("".join(block.text for block in response.content if block.type == "text"))
                return
            messages += answer


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
