"""An agent on any address that speaks OpenAI's Chat Completions: Ollama, vLLM, LM Studio … Nothing else is installed.

python examples/agents/any_address.py "Where is it warmest in July?" --base-url http://localhost:11434/v1 --model qwen3
"""

import argparse
import json
import os
from pathlib import Path
from urllib.request import Request, urlopen

from ferrule import SyncClient
from ferrule.bridges import ToolUse

SERVERS = Path(__file__).parents[1] / "weather.py"


def allow(use: ToolUse) -> bool:
    """Let a tool that only reads be called, and ask for any other."""
    reads = use.tool.annotations is not None and use.tool.annotations.read_only_hint
    return bool(reads) or input(f"Call {use.name} with {dict(use.arguments)}? [y/n] ") == "y"


def post(url: str, body: dict) -> dict:
    """Send JSON and return the JSON of the answer."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ.get('API_KEY', 'none')}"}
    with urlopen(Request(url, json.dumps(body).encode(), headers), timeout=600) as answer:
        return json.load(answer)


def main(question: str, servers: str, base_url: str, model: str) -> None:
    """Ask until the model calls nothing more, at most 20 times."""
    messages: list = [{"role": "user", "content": question}]
    with SyncClient(servers) as client:
        for _ in range(20):
            body = {"model": model, "messages": messages, "tools": client.tools_for("openai-chat", budget=20_000)}
            response = post(f"{base_url.rstrip('/')}/chat/completions", body)
            messages.append(response["choices"][0]["message"])
            answer = client.answer(response, approve=allow)
            if not answer:
                print(messages[-1]["content"])
                return
            messages += answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--servers", default=str(SERVERS), help="an mcp.json or a script")
    parser.add_argument("--base-url", default="http://localhost:11434/v1")
    parser.add_argument("--model", default="qwen3")
    main(**vars(parser.parse_args()))
