"""The command line as a user runs it: a process, its input, its output and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

DEADLINE_S = 240.0


def command(*words: str) -> list[str]:
    """The words of a `kafkalog` command."""
    return [sys.executable, "-m", "kafkalog.cli.main", *words]


def run(*words: str, stdin: bytes = b"", check: int | None = 0) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end; AssertionError with all it printed where it does not exit with `check`."""
    done = subprocess.run(command(*words), input=stdin, capture_output=True, timeout=DEADLINE_S, check=False)
    if check is not None:
        assert done.returncode == check, (
            f"{' '.join(words)} ended with {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
        )
    return done


def start(*words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a command whose streams are pipes; the caller ends it."""
    return subprocess.Popen(
        command(*words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )


def lines(done: subprocess.CompletedProcess[bytes]) -> Sequence[str]:
    """The lines of a command's standard output."""
    return done.stdout.decode().splitlines()
