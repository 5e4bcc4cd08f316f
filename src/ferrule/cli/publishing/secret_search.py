"""Looks for secrets in the files of a bundle.

Nothing here can know all secrets. The search finds the forms that services give their keys, private keys, and values
that this machine itself calls secret: of ``.env`` and of the variables of secret settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["find_secrets", "known_secrets"]

_SECRET_FILES: Final = (
    ".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.gpg",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials",
    ".htpasswd", "credentials.json", "client_secret*.json", "service-account*.json", "service_account*.json",
    "secrets.json", "secrets.toml", "secrets.yaml", "secrets.yml",
)  # fmt: skip
_FORMS: Final = {
    "a private key": rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "an access key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of GitHub": rb"\bgh[oprsu]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{50,}",
    "a token of GitLab": rb"\bglpat-[A-Za-z0-9_-]{20,}",
    "a token of Slack": rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "a key of Google": rb"\bAIza[0-9A-Za-z_-]{35}",
    "a key of Stripe": rb"\b[rs]k_live_[0-9A-Za-z]{20,}",
    "a key of OpenAI, Anthropic or a similar service": rb"\bsk-[A-Za-z0-9_-]{24,}",
    "a token of Hugging Face": rb"\bhf_[A-Za-z0-9]{30,}",
    "a token of npm": rb"\bnpm_[A-Za-z0-9]{36}",
    "a token of PyPI": rb"\bpypi-AgE[A-Za-z0-9_-]{50,}",
}
_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|PRIVATE", re.IGNORECASE)
_SHORTEST_SECRET: Final = 8
_WORD: Final = re.compile(r"[a-z_-]{1,19}|[A-Z_-]{1,19}")


def find_secrets(
    files: Mapping[str, bytes], known: Mapping[str, str], allowed: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Return what looks like a secret, as pairs of a path with line and a sentence; never the value itself.

    Args:
        files: path to content.
        known: values that are secret, with the place that says so.
        allowed: paths, or patterns of paths, that are no secrets.
    """
    found: list[tuple[str, str]] = []
    for path, content in files.items():
        if any(fnmatchcase(path, pattern) for pattern in allowed):
            continue
        if any(fnmatchcase(PurePosixPath(path).name.lower(), pattern) for pattern in _SECRET_FILES):
            found.append((path, "its name is that of a file with secrets"))
            continue
        for words, form in _FORMS.items():
            match = re.search(form, content)
            if match is not None:
                found.append((f"{path}:{_line(content, match.start())}", f"looks like {words}"))
        for value, place in known.items():
            at = content.find(value.encode("utf-8", "surrogatepass"))
            if at >= 0:
                found.append((f"{path}:{_line(content, at)}", f"has the value of {place}"))
    return found


def known_secrets(root: Path, variables: Collection[str]) -> dict[str, str]:
    """Return secret values of this machine: those of ``.env`` at the root, and of the variables of secret settings.

    Args:
        root: the folder of the project.
        variables: the names of variables with secrets.
    """
    found: dict[str, str] = {}
    for name in variables:
        _note(found, os.environ.get(name, ""), f"the variable {name}")
    try:
        lines = (root / ".env").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        name, _, value = line.strip().removeprefix("export ").partition("=")
        if name.strip() in variables or _SECRET_NAME.search(name):
            _note(found, value.strip().strip("'\""), f"{name.strip()} in .env")
    return found


def _note(found: dict[str, str], value: str, place: str) -> None:
    """Add a value that is looked for: not a word such as ``development``, a path, or an address without credentials."""
    is_ordinary = _WORD.fullmatch(value) or value.startswith(("${", "/", "./")) or ("://" in value and "@" not in value)
    if len(value) >= _SHORTEST_SECRET and not is_ordinary:
        found.setdefault(value, place)


def _line(content: bytes, at: int) -> int:
    return content.count(b"\n", 0, at) + 1
