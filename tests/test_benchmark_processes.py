"""Test what benchmarks take for the CPU time and the memory of a process and its descendants."""

from __future__ import annotations

import shlex
import subprocess
import sys

import psutil  # type: ignore[import-untyped]
import pytest

from benchmarks.peers.processes import cpu_seconds, resident_bytes

SPENT_S = 0.3
LEAST_S = 0.2
"""The system counts in ticks."""
_WORKS = f"""
import time
while time.process_time() < {SPENT_S}: pass
held = b"x" * 10_000_000
print("done", flush=True)
import sys; sys.stdin.read()
"""


@pytest.mark.usefixtures("processes")
def test_descendants_that_seem_older_than_the_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """They seem so when the clock is set between two looks at it."""
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: -self.pid)
    # The shell waits for its child, because another command follows.
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(_WORKS)}; true"
    with subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        try:
            assert shell.stdout.readline() == b"done\n"
            assert cpu_seconds(shell.pid) >= LEAST_S
            assert resident_bytes(shell.pid) > 10_000_000
        finally:
            shell.stdin.close()
