"""Test a broker on a lossy disk: a hundred seeded schedules, and in the soak thousands.

A failing one says how to run it again: `python -m tests.crash.schedules --seed N`.
"""

from __future__ import annotations

import os

import pytest

from tests.crash.schedules import run_schedule
from tests.support.amount import mostly_exhaustive

IN_A_TEST = 10
SOAK_FIRST = int(os.environ.get("KAFKALOG_SOAK_FIRST", "1000"))
SOAK_COUNT = int(os.environ.get("KAFKALOG_SOAK_COUNT", "3000"))
"""Seeds of the soak, which may be chosen by the environment."""


@pytest.mark.parametrize("first", mostly_exhaustive(range(0, 100, IN_A_TEST), 2))
def test_what_was_flushed_survives_a_power_cut_and_nothing_else_is_served(first: int) -> None:
    for seed in range(first, first + IN_A_TEST):
        assert run_schedule(seed)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_thousands_of_schedules() -> None:
    for seed in range(SOAK_FIRST, SOAK_FIRST + SOAK_COUNT):
        assert run_schedule(seed)
