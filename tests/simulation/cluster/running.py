"""Run the simulator in a process of its own.

It takes the descriptors of files away from the brokers that it kills. In the process of the tests these may have become
others by the time that the brokers' objects are collected, which close them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run(module: str, *words: object, hash_seed: str | None = None) -> tuple[int, str]:
    """Run a module of this package; return its exit code, and what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if hash_seed is not None:
        environment["PYTHONHASHSEED"] = hash_seed
    done = subprocess.run(
        [sys.executable, "-m", f"tests.simulation.cluster.{module}", *map(str, words)],
        cwd=ROOT,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout
