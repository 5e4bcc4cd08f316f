"""What is imported when, and what is said when the extra is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ferrule.auth

WITHOUT = """
import sys
sys.modules["joserfc"] = None
sys.modules["cryptography"] = None
{program}
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)


NEEDS_IT = {
    "a client's signed assertion": "from ferrule.auth.jose import import_private_key; import_private_key('x')",
    "a DPoP key": "from ferrule.auth.jose import generate_key; generate_key()",
    "verifying a token": (
        "import asyncio\n"
        "from ferrule.auth import JwtTokens\n"
        "keys = {'keys': [{'kty': 'EC', 'crv': 'P-256', 'x': 'AA', 'y': 'AA'}]}\n"
        "head = 'eyJhbGciOiJFUzI1NiJ9'\n"
        "asyncio.run(JwtTokens('https://as.example', jwks=keys).verify(head + '.e30.AA', ['x']))"
    ),
    "an encrypted file": (
        "import anyio, tempfile\n"
        "from ferrule.auth import EncryptedFileStorage\n"
        "anyio.run(EncryptedFileStorage(tempfile.mkdtemp()).get, 'x')"
    ),
}


@pytest.mark.parametrize("what", NEEDS_IT)
def test_without_the_extra_the_error_names_it(what: str) -> None:
    """A plain ImportError would not name the extra to install."""
    done = run(WITHOUT.format(program=NEEDS_IT[what]))
    assert done.returncode == 1
    assert "pip install 'ferrule[auth]'" in done.stderr.splitlines()[-1]


def test_the_common_case_of_a_client_needs_no_extra() -> None:
    """Authorization code, PKCE, client secrets: a hash is all it takes."""
    program = "from ferrule.auth import OAuth, ClientCredentials; OAuth(); ClientCredentials('a', 'b')"
    assert run(WITHOUT.format(program=program)).returncode == 0


@pytest.mark.parametrize("name", ferrule.auth.__all__)
def test_no_name_loads_cryptography_before_it_is_used(name: str) -> None:
    """It takes some ten milliseconds, and most programs never sign anything."""
    done = run(f"import sys; from ferrule.auth import {name}; print({{'cryptography', 'joserfc'}} & set(sys.modules))")
    assert done.stdout.strip() == "set()"


def test_the_table_of_names_is_what_it_says() -> None:
    """Lazy names are a second truth; this holds it to the first."""
    from importlib import import_module

    assert sorted(ferrule.auth._MODULES) == ferrule.auth.__all__
    for name, module in ferrule.auth._MODULES.items():
        assert getattr(import_module(module), name) is getattr(ferrule.auth, name)
