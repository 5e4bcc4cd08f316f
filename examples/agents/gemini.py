"""An agent on Gemini with the tools of MCP servers. `pip install google-genai`, and the key in GEMINI_API_KEY.

python examples/agents/gemini.py "Where is it warmest in July?" [mcp.json or a script]
"""

import asyncio
import sys
from pathlib import Path

from google import genai

from ferrule import Client
from ferrule.bridges import ToolUse

SERVERS = Path(__file__).parents[1] / "weather.py"


def allow(use: ToolUse) -> bool:
    """Let a tool that only reads be called, and ask for any other."""
    reads = use.tool.annotations is not None and use.tool.annotations.read_only_hint
    return bool(reads) or input(f"Call {use.name} with {dict(use.arguments)}? [y/n] ") == "y"


async def main(question: str, servers: str = str(SERVERS), model: str = "gemini-3.8-flash") -> None:
    """Ask until the model calls nothing more, at most 20 times."""
    gemini = genai.Client()
    contents: list = [{"role": "user", "parts": [{"text": question}]}]
    async with Client(servers) as client:
        for _ in range(20):
            config = {"tools": await client.tools_for("gemini", budget=20_000)}
            response = await gemini.aio.models.generate_content(model=model, contents=contents, config=config)
            contents.append(response.candidates[0].content)
            answer = await client.answer(response, approve=allow)
            if not answer:
                print(response.text)
                return
            contents += answer


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
