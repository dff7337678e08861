"""Run the command line as a user does: a process, its input, its output and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import IO, NamedTuple

from kafkalog.cli.main import main

DEADLINE_S = 240.0


def command(*words: str) -> list[str]:
    """Return the command line of a `kafkalog` command."""
    return [sys.executable, "-m", "kafkalog.cli.main", *words]


def run(*words: str, stdin: bytes = b"", check: int | None = 0) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end.

    Raises:
        AssertionError: The command does not exit with `check`; the error has its output.
    """
    done = subprocess.run(command(*words), input=stdin, capture_output=True, timeout=DEADLINE_S, check=False)
    if check is not None:
        assert done.returncode == check, (
            f"{' '.join(words)} ended with {done.returncode}\n{done.stdout.decode()}\n{done.stderr.decode()}"
        )
    return done


def start(
    *words: str,
    environment: dict[str, str] | None = None,
    stdout: IO[bytes] | int = subprocess.PIPE,
    stderr: IO[bytes] | int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start a command; its streams are pipes unless others are given. The caller ends it."""
    return subprocess.Popen(
        command(*words),
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env={**os.environ, **(environment or {})},
    )


@contextmanager
def ended_by_sigterm(process: subprocess.Popen[bytes], deadline_s: float = 60.0) -> Iterator[subprocess.Popen[bytes]]:
    """Run the block, then end the process by SIGTERM, and assert that it ends in time with exit code 0."""
    try:
        yield process
        process.terminate()
        process.communicate(timeout=deadline_s)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0


def lines(done: subprocess.CompletedProcess[bytes]) -> Sequence[str]:
    """Return the lines of a command's standard output."""
    return done.stdout.decode().splitlines()


class Ended(NamedTuple):
    """The output of a command and its exit code."""

    code: int
    out: list[str]
    err: str


def call(*words: str, check: int | None = 0) -> Ended:
    """Run a command in this process, which is faster than `run`.

    Raises:
        AssertionError: The command does not exit with `check`; the error has its output.
    """
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as usage:
            code = int(usage.code or 0)
    assert check is None or code == check, f"{' '.join(words)} ended with {code}\n{out.getvalue()}\n{err.getvalue()}"
    assert "Traceback" not in err.getvalue()
    return Ended(code, out.getvalue().splitlines(), err.getvalue())
