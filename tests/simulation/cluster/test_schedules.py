"""Test a cluster under schedules of faults: two hundred seeds, and in the soak as many as wanted.

A failing one says how to run it again.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.cluster.running import run
from tests.support.amount import mostly_exhaustive

IN_A_TEST = 10
IN_A_PROCESS = 100
SOAK_FIRST = int(os.environ.get("KAFKALOG_SOAK_FIRST", "1000"))
SOAK_COUNT = int(os.environ.get("KAFKALOG_SOAK_COUNT", "100000"))
"""Seeds of the soak, which may be chosen by the environment."""
FOUND_WITH_ONE_CHOICE = (16, 24, 33, 1031, 1035, 300233, 300292, 310241, 320002, 420032, 420150, 420178, 452225)
"""Seeds in which a leader lost its power, came back while there was no controller, and went on in its former epoch; in
which a stray was served after it was set aside; in which a link failed between two steps of its handshake; in which the
values of transactions were read from a follower; in which a broker took the first partition of a topic for all; in
which the markers of a transaction were written before its commit was replicated; in which the check itself found the
failed disk; in which all lost power, and the check expected what a leader had kept of a follower that had lost it; in
which a controller that had not read the topics yet did not know one; in which the late refusal of a process that was
gone stopped a deletion; in which the check forgot that a host without power, elected twice, had lost its records."""
FOUND_WITH_TWO_CHOICES = (1500023, 1502017, 1002952)
"""The same for seeds that made two kinds of choices: in which the check expected an offset of a group without any; in
which a leader that missed two elections and won the next one relied on what its followers had before them; in which the
check did not expect that a leader adds a replica to the ISR that was unassigned a moment before."""
FOUND_WITH_THREE_CHOICES = (2000521, 2000640, 2000688, 2000765)
"""The same for seeds that made three kinds of choices: in which followers asked by ids that a leader of an
older protocol did not know."""

FOUND: tuple[int, ...] = (4206143, 4706059, 4207274, 4709054, 4711460)
"""The same for seeds that made all of them: in which a follower served records again that its leader never had, and
that lay below the start of the leader's log; in which the check did not see what a leader committed while it stopped;
in which the check did not expect that a leader adds a follower to the ISR whose power is gone, as it had proposed; in
which it did not know what a leader had committed before it heard of the next one; in which all lost power, and it held
what a later leader still had to be with the others at once."""

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(900)]


def check(first: int, count: int = 1, *options: str) -> None:
    code, said = run("schedule", first, count, "--quiet", *options)
    assert code == 0, f"python -m tests.simulation.cluster.schedule {first} {count} {' '.join(options)}\n{said}"
    assert f"{count} schedules, 0 failed" in said


@pytest.mark.parametrize("first", mostly_exhaustive(range(0, 200, IN_A_TEST), 1))
def test_what_was_promised_is_kept(first: int) -> None:
    check(first, IN_A_TEST)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("seed", "choices"),
    [(seed, 1) for seed in FOUND_WITH_ONE_CHOICE]
    + [(seed, 2) for seed in FOUND_WITH_TWO_CHOICES]
    + [(seed, 3) for seed in FOUND_WITH_THREE_CHOICES]
    + [(seed, 4) for seed in FOUND],
)
def test_schedules_that_found_something(seed: int, choices: int) -> None:
    check(seed, 1, "--choices", str(choices))


@pytest.mark.soak
@pytest.mark.timeout(100 * 3600)
def test_a_hundred_thousand_schedules() -> None:
    for first in range(SOAK_FIRST, SOAK_FIRST + SOAK_COUNT, IN_A_PROCESS):
        check(first, min(IN_A_PROCESS, SOAK_FIRST + SOAK_COUNT - first))


@pytest.mark.parametrize("seed", [7, 7004])
def test_a_seed_gives_the_same_run_in_every_process(seed: int) -> None:
    # In the second one a log directory of several replicas fails.
    runs = [run("schedule", seed, "--choices", "1", hash_seed=hash_seed)[1] for hash_seed in ("1", "2")]
    digests = {said.splitlines()[0].split()[-1] for said in runs}
    (digest,) = digests
    assert len(digest) == 12
