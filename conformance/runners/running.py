"""Run a suite's program, with a time limit, and keep its output."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(
    command: Sequence[str],
    directory: Path,
    log: Path,
    *,
    errors: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 3600,
) -> int:
    """Run a program and return its exit code; -9 if it was killed after `timeout_s`.

    Its output goes to `log`; standard error goes to `errors` if that is given. The whole process group is killed.
    """
    with log.open("wb") as out, (errors or Path(os.devnull)).open("wb") as err:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err if errors else subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        try:
            return process.wait(timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return -signal.SIGKILL
            raise
