"""An agent on OpenAI's Responses API with the tools of MCP servers. `pip install openai`, the key in OPENAI_API_KEY.

python examples/agents/openai_responses.py "Where is it warmest in July?" [mcp.json or a script]
"""

import asyncio
import sys
from pathlib import Path

from openai import AsyncOpenAI

from ferrule import Client
from ferrule.bridges import ToolUse

SERVERS = Path(__file__).parents[1] / "weather.py"


def allow(use: ToolUse) -> bool:
    """Let a tool that only reads be called, and ask for any other."""
    reads = use.tool.annotations is not None and use.tool.annotations.read_only_hint
    return bool(reads) or input(f"Call {use.name} with {dict(use.arguments)}? [y/n] ") == "y"


async def main(question: str, servers: str = str(SERVERS), model: str = "gpt-5.6") -> None:
    """Ask until the model calls nothing more, at most 20 times."""
    openai = AsyncOpenAI()
    items: list = [{"role": "user", "content": question}]
    async with Client(servers) as client:
        for _ in range(20):
            tools = await client.tools_for("openai", budget=20_000)
            response = await openai.responses.create(model=model, input=items, tools=tools)
            items += response.output
            answer = await client.answer(response, approve=allow)
            if not answer:
                print(response.output_text)
                return
            items += answer


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
