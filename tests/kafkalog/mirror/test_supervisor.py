"""Test which errors end a mirror, and that a job that fails is done again."""

from __future__ import annotations

import random
import threading

import pytest

from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConfigError
from kafkalog.client.transactions.errors import FencedError, Operation, transaction_error
from kafkalog.mirror.housekeeping.jobs import Housekeeping, Job
from kafkalog.mirror.supervisor import LONGEST_PAUSE_S, PAUSE_S, is_hopeless, pause_after
from kafkalog.protocol.errors import ErrorCode, error_for
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("error", "hopeless"),
    [
        (ConfigError("x"), True),
        (AuthenticationError("x"), True),
        (error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED), True),
        (transaction_error(Operation.INIT, error_for(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), "t"), True),
        (FencedError("another process has the task"), False),
        (ClientTimeoutError("x"), False),
        (error_for(ErrorCode.NOT_LEADER_OR_FOLLOWER), False),
        # As long as brokers are down.
        (error_for(ErrorCode.INVALID_REPLICATION_FACTOR), False),
    ],
    ids=lambda each: getattr(type(each), "__name__", None),
)
def test_only_what_no_time_mends_ends_a_mirror(error: Exception, hopeless: bool) -> None:
    assert is_hopeless(error) is hopeless


def test_mirrors_of_both_directions_do_not_try_again_at_the_same_time() -> None:
    pauses = [pause_after(3, random.Random(seed)) for seed in range(100)]
    assert all(1.6 * PAUSE_S <= pause <= 7.2 * PAUSE_S for pause in pauses)
    assert max(pauses) - min(pauses) > 3 * PAUSE_S
    assert len(set(pauses)) == 100
    assert max(pause_after(1000, random.Random(seed)) for seed in range(100)) <= 1.5 * LONGEST_PAUSE_S


def test_a_job_that_fails_does_not_hold_the_others_up(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    def fail() -> None:
        done.append("failing")
        if done.count("failing") < 3:
            raise ClientTimeoutError("no answer")

    housekeeping = Housekeeping()
    housekeeping.start([Job("failing", 0.01, fail), Job("working", 0.01, lambda: done.append("working"))])
    try:
        wait_until(lambda: done.count("failing") > 3 and done.count("working") > 3, "both jobs are done again")
    finally:
        housekeeping.join()
    assert [record.getMessage() for record in caplog.records] == [
        "failing: no answer; it is tried again every 0.01 s",
        "failing works again",
    ]
    assert "mirror-housekeeping" not in {thread.name for thread in threading.enumerate()}
