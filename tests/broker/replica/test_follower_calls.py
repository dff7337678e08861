"""Test that followers which wait for other partitions are called when this broker begins to lead one."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from pathlib import Path

import pytest

from broker.api.fetch import fetch, fetch_session
from broker.metadata.model import PartitionState
from broker.replica.follower_calls import CALLED_FOR_S, LONGEST_S, FollowerCall, FollowerCalls
from broker.replica.partition import Partition
from broker.replica.purgatory import DelayedOperation, Purgatory
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.coordinator.support import Stored
from tests.broker.serving import TOPIC_ID, Serving
from tests.simulation.virtual_time import VirtualLoop

FOLLOWER, ANOTHER = 9, 8
NEVER_MS = 1_000_000
EPOCH = 1


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Stored(tmp_path, {}) as parts:
        yield Serving(parts, fetch.HANDLERS)


def request(*indexes: int, wait_ms: int = 0, epoch: int = 0, session_id: int = 0) -> FetchRequest:
    rows = [
        FetchPartition(partition=index, partition_max_bytes=1 << 20, log_start_offset=0, current_leader_epoch=EPOCH)
        for index in indexes
    ]
    return FetchRequest(
        replica_id=FOLLOWER, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=session_id,
        session_epoch=epoch, topics=[FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=rows)] if rows else [],
    )  # fmt: skip


def lead(serving: Serving, index: int, *isr: int) -> Partition:
    """Let this broker lead a partition of t with followers; return it."""
    serving.parts.assign("t", index, PartitionState((0, FOLLOWER, ANOTHER), (0, *isr), 0, EPOCH))
    partition = serving.parts.replicas.get("t", index)
    assert partition is not None
    return partition


@pytest.mark.parametrize("many", [1, 1 << 20], ids=["in turns", "at once"])
def test_a_waiting_fetch_of_a_follower_is_answered_when_it_has_another_partition_to_fetch(
    serving: Serving, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One fetch waits in a session, the other one without a session."""
    monkeypatch.setattr(fetch_session, "MANY_PARTITIONS", many)
    monkeypatch.setattr(fetch, "MANY_BYTES", many)

    async def work() -> None:
        lead(serving, 3, FOLLOWER)
        session = await serving.ask(request(3))
        for led, waits in (
            (4, request(wait_ms=NEVER_MS, session_id=session.session_id, epoch=1)),
            (5, request(3, 4, wait_ms=NEVER_MS, epoch=-1)),
        ):
            waiting = serving.begin(waits)
            await serving.until(lambda: serving.watched == 1)
            lead(serving, led, FOLLOWER)
            response = await waiting
            assert response.error_code == ErrorCode.NONE
            assert not any(row.records for topic in response.responses for row in topic.partitions)

    serving.run(work())


class Waits(DelayedOperation):
    """A fetch that a follower waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def noticed(self, key: Hashable, amount: int) -> None:
        self.calls += 1

    def try_complete(self) -> bool:
        return False


class Called:
    """Followers that wait, in virtual time, and the partitions of a broker."""

    def __init__(self, serving: Serving, loop: VirtualLoop) -> None:
        self.serving, self.loop = serving, loop
        fetches = Purgatory(loop)
        self.calls = FollowerCalls(loop, fetches)
        self.waits = {replica: Waits() for replica in (FOLLOWER, ANOTHER)}
        for replica, waits in self.waits.items():
            fetches.watch(waits, [FollowerCall(replica)], NEVER_MS)

    def after(self, seconds: float) -> tuple[int, int]:
        """Return how often each of the two was called, some seconds later."""
        self.loop.run_until_complete(asyncio.sleep(seconds))
        return self.waits[FOLLOWER].calls, self.waits[ANOTHER].calls


@pytest.fixture
def called(serving: Serving) -> Iterator[Called]:
    loop = VirtualLoop()
    yield Called(serving, loop)
    loop.close()


def test_only_followers_in_the_isr_are_called_until_they_have_fetched(called: Called) -> None:
    partition = lead(called.serving, 3, FOLLOWER)
    called.calls.begin(partition)
    assert called.after(0.005) == (1, 0)
    assert called.after(0.010) == (2, 0)
    partition.follower_fetched(FOLLOWER, 0, 0, 0)
    assert called.after(2 * CALLED_FOR_S) == (2, 0)


def test_a_follower_that_does_not_come_is_called_ever_more_seldom_and_then_no_more(called: Called) -> None:
    called.calls.begin(lead(called.serving, 3, FOLLOWER, ANOTHER))
    often, _ = called.after(CALLED_FOR_S + LONGEST_S)
    assert 5 < often < 15
    assert called.after(2 * CALLED_FOR_S) == (often, often)


def test_nobody_is_called_for_a_partition_that_this_broker_leads_no_more(called: Called) -> None:
    partition = lead(called.serving, 3, FOLLOWER)
    called.calls.begin(partition)
    called.serving.parts.assign("t", 3, PartitionState((0, FOLLOWER), (0, FOLLOWER), FOLLOWER, EPOCH + 1))
    assert called.after(CALLED_FOR_S) == (0, 0)
    called.calls.begin(partition)
    assert called.after(CALLED_FOR_S) == (0, 0)


def test_another_partition_is_called_for_at_once_while_one_waits(called: Called) -> None:
    called.calls.begin(lead(called.serving, 3, FOLLOWER))
    before, _ = called.after(1.0)
    called.calls.begin(lead(called.serving, 4, FOLLOWER))
    assert called.after(0.005) == (before + 1, 0)


def test_a_broker_that_stops_calls_nobody(called: Called) -> None:
    called.calls.begin(lead(called.serving, 3, FOLLOWER))
    called.calls.close()
    assert called.after(CALLED_FOR_S) == (0, 0)
