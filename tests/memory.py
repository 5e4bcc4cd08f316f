"""How much memory something takes, measured in a process that does nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_PROGRAM = """
import tracemalloc
from {module} import {name} as work
tracemalloc.start()
work()
print(tracemalloc.get_traced_memory()[1])
"""


def peak_bytes_of(work: Callable[[], object]) -> int:
    """The most that a function of a module holds at once.

    In this process other threads, and what earlier tests left to be collected, would be counted, too.
    """
    program = _PROGRAM.format(module=work.__module__, name=work.__name__)
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
