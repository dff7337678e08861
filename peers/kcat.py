"""Run kcat, the command line of librdkafka."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence


def command() -> str | None:
    """Return the path of kcat, under either of its names."""
    return shutil.which("kcat") or shutil.which("kafkacat")


def missing() -> str | None:
    """Return why kcat cannot run here, or None."""
    return None if command() else "missing because kcat is not installed (apt-get install kcat, brew install kcat)"


def kcat_line(bootstrap: str, args: Sequence[str]) -> list[str]:
    """Return the command line; the caller starts the process."""
    found = command()
    if found is None:
        raise FileNotFoundError(str(missing()))
    return [found, "-b", bootstrap, *args]


def run_kcat(bootstrap: str, args: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> bytes:
    """Run kcat; return its standard output.

    Raises:
        RuntimeError: The exit code is not 0. The text has what kcat wrote to standard error.
    """
    done = subprocess.run(kcat_line(bootstrap, args), input=stdin, capture_output=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"kcat ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout
