"""ferrule.cli.publishing.secret_search: what is found, and what is no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.cli.publishing.secret_search import find_secrets, known_secrets
from tests.cli.publishing.samples import write

SAMPLES = {
    "a private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
    "AWS": "AKIA" + "ABCDEFGHIJKLMNOP",
    "GitHub": "ghp_" + "a1B2" * 9,
    "Slack": "xoxb-" + "1234567890-abc",
    "Google": "AIza" + "x" * 35,
    "Stripe": "sk_live_" + "a" * 24,
    "Anthropic": "sk-ant-" + "api03-" + "a" * 20,
    "Hugging Face": "hf_" + "a" * 34,
}


@pytest.mark.parametrize("words", SAMPLES)
def test_what_looks_like_a_secret(words: str) -> None:
    """The line is named and the value is not."""
    value = SAMPLES[words]
    ((place, why),) = find_secrets({"a.py": b"# ok\n", "b.py": f"x = 1\nKEY = '{value}'\n".encode()}, {})
    assert place == "b.py:2"
    assert words in why
    assert value not in f"{place}{why}"
    assert find_secrets({"b.py": value.encode()}, {}, ["b.*"]) == []


@pytest.mark.parametrize(
    "name", [".npmrc", "keys/server.pem", "id_rsa", "credentials.json", "prod.env", "Secrets.toml"]
)
def test_names_of_files_with_secrets(name: str) -> None:
    """Whatever is in them."""
    assert [place for place, _ in find_secrets({name: b""}, {})] == [name]
    assert find_secrets({name: b""}, {}, [name]) == []


def test_ordinary_texts_are_no_secrets() -> None:
    """A false alarm on each bundle would teach people to switch the search off."""
    text = b"sk-learn task-force risk-assessment hf_model AKIA sk_live_ 'placeholder' https://x.example/?key=KEY"
    assert find_secrets({"keyboard.py": text, "token.py": b"", "key.md": b"", "environment.py": b""}, {}) == []


def test_ordinary_values_of_secret_variables(tmp_path: Path) -> None:
    """Words, paths and addresses stand in every second file."""
    values = ["development", "https://api.example.com/1", "/etc/keys/1.txt", "${user_config.key1}"]
    write(tmp_path, {".env": "".join(f"KEY_{at}={value}\n" for at, value in enumerate(values))})
    assert known_secrets(tmp_path, ["KEY_0"]) == {}


def test_values_that_this_machine_calls_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that was pasted into the source while it was tried has no form that could be known."""
    monkeypatch.setenv("WEATHER_API_KEY", "value-1-of-variable")
    monkeypatch.setenv("SHORT", "abc")
    write(tmp_path, {".env": "export MY_TOKEN='value-2-of-dotenv'\nCOLOR=purple-1-green\n# KEY\n"})
    known = known_secrets(tmp_path, ["WEATHER_API_KEY", "SHORT"])
    assert known == {"value-1-of-variable": "the variable WEATHER_API_KEY", "value-2-of-dotenv": "MY_TOKEN in .env"}
    assert find_secrets({"a.py": b"\n\nx = 'value-2-of-dotenv'"}, known) == [
        ("a.py:3", "has the value of MY_TOKEN in .env")
    ]
