"""Test that fault points obey orders in a test's environment only."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_kafkalog.faults import ORDERS, TESTING
from tests.support import faults

pytestmark = pytest.mark.usefixtures("processes")

SCRIPT = """
from spark_kafkalog import faults
for number in range(3):
    faults.point("there")
    print("passed", number, flush=True)
"""


def run(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in (ORDERS, TESTING)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False, env=clean | environment
    )


def test_the_process_dies_at_the_pass_that_was_ordered(tmp_path: Path) -> None:
    order = faults.place(tmp_path, "there", nth=2)
    done = run(faults.environment(tmp_path))
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == "passed 0\n"
    assert not order.exists()
    assert run(faults.environment(tmp_path)).returncode == 0, "an order is carried out once"


@pytest.mark.parametrize("beside", [{}, {TESTING: "0"}, {TESTING: ""}])
def test_orders_are_refused_outside_of_tests(tmp_path: Path, beside: dict[str, str]) -> None:
    order = faults.place(tmp_path, "there")
    done = run({ORDERS: str(tmp_path), **beside})
    assert done.returncode == 0
    assert done.stdout.count("passed") == 3
    assert f"{ORDERS} has no effect without {TESTING}=1" in done.stderr
    assert order.exists()
