"""Test that a server tells that it is ready, and goes on where its output cannot be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "from broker.system.announcing import announce\nannounce('ready')\nannounce('still ready')\n"


def test_it_prints_the_line(processes: None) -> None:
    assert subprocess.check_output([sys.executable, "-c", PROGRAM], timeout=60) == b"ready\nstill ready\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_it_goes_on_where_nobody_can_read_it(processes: None) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert done.returncode == 0
    assert done.stderr.decode().splitlines() == [
        "Standard output cannot be written (No space left on device). It would say: ready"
    ]
