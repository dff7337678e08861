"""Test a cluster under schedules of faults: two hundred seeds, and in the soak as many as wanted.

A failing one says how to run it again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster.schedule import run_schedule
from tests.support.amount import mostly_exhaustive

IN_A_TEST = 4
SOAK_FIRST = int(os.environ.get("KAFKALOG_SOAK_FIRST", "1000"))
SOAK_COUNT = int(os.environ.get("KAFKALOG_SOAK_COUNT", "100000"))
"""Seeds of the soak, which may be chosen by the environment."""
FOUND = (16, 24, 33)
"""Seeds in which a leader lost its power, came back while there was no controller, and went on in its former epoch."""


def check(seed: int) -> None:
    outcome = run_schedule(seed)
    assert not outcome.faults, "\n".join(
        [f"python -m tests.simulation.cluster.schedule {seed}", str(outcome.plan), *outcome.faults[:5]]
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", mostly_exhaustive(range(0, 200, IN_A_TEST), 3))
def test_what_was_promised_is_kept(first: int) -> None:
    for seed in range(first, first + IN_A_TEST):
        check(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", FOUND)
def test_schedules_that_found_something(seed: int) -> None:
    check(seed)


@pytest.mark.soak
@pytest.mark.timeout(100 * 3600)
def test_a_hundred_thousand_schedules() -> None:
    for seed in range(SOAK_FIRST, SOAK_FIRST + SOAK_COUNT):
        check(seed)


@pytest.mark.usefixtures("processes")
def test_a_seed_gives_the_same_run_in_every_process() -> None:
    code = "from tests.simulation.cluster.schedule import run_schedule; print(run_schedule(7).digest)"
    root = Path(__file__).parents[3]
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    (digest,) = digests
    assert len(digest.strip()) == 64
