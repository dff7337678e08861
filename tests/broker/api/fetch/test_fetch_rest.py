"""Test that sessions leave out what has not changed, and miss nothing that has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.api.fetch import fetch, fetch_rest, fetch_session
from broker.api.fetch.fetch_reading import QUIET_RESPONSES
from broker.metadata.model import PartitionState
from broker.runtime import Runtime
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tests.broker.coordinator.support import Stored
from tests.broker.serving import HERE, RECORDS, TOPIC_ID, Serving

FOLLOWER = 9
NEVER_MS = 1_000_000


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with Stored(tmp_path, {}) as parts:
        yield Serving(parts, fetch.HANDLERS)


@dataclass
class Session:
    """A client's session with all partitions of `t`, and what the client knows from it.

    Attributes:
        offsets: from where each partition is fetched.
        known: the high watermark, the log start and the error of each, as told.
        named: the partitions that the last response named.
    """

    serving: Serving
    replica: int = -1
    session_id: int = 0
    epoch: int = 0
    offsets: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(HERE), 0))
    sent: dict[int, int] = field(default_factory=dict)
    known: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)

    def request(self, wait_ms: int = 0, forget: tuple[int, ...] = ()) -> FetchRequest:
        """Make the next request, which names the partitions whose offset is another one than before."""
        for index in forget:
            self.offsets.pop(index, None)
            self.sent.pop(index, None)
        rows = [
            FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=1 << 20, log_start_offset=0,
                current_leader_epoch=1 if self.replica >= 0 else -1,
            )
            for index, offset in self.offsets.items()
            if self.sent.get(index) != offset
        ]  # fmt: skip
        self.sent = dict(self.offsets)
        gone = [ForgottenTopic(topic="t", topic_id=TOPIC_ID, partitions=list(forget))] if forget else []
        message = FetchRequest(
            replica_id=self.replica, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=self.session_id,
            session_epoch=self.epoch, forgotten_topics_data=gone,
            topics=[FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=rows)] if rows else [],
        )  # fmt: skip
        self.epoch += 1
        return message

    def take(self, response: Any) -> None:
        """Learn what the response says."""
        assert response.error_code == ErrorCode.NONE
        self.session_id = response.session_id
        self.named = set()
        for topic in response.responses:
            for row in topic.partitions:
                self.named.add(row.partition_index)
                self.known[row.partition_index] = row.high_watermark, row.log_start_offset, row.error_code
                self.offsets[row.partition_index] += len(row.records or b"") // len(RECORDS)

    async def fetch(self, wait_ms: int = 0, forget: tuple[int, ...] = ()) -> None:
        self.take(await self.serving.ask(self.request(wait_ms, forget)))

    async def rest(self) -> None:
        """Fetch until the client has everything, and was told so by as many responses as let a partition rest."""
        quiet = 0
        while quiet < QUIET_RESPONSES:
            await self.fetch()
            quiet = 0 if self.named else quiet + 1


def delete_records(serving: Serving, index: int) -> None:
    partition = serving.parts.replicas.get("t", index)
    assert partition is not None
    partition.delete_records(-1)


def stop(serving: Serving, index: int) -> None:
    serving.parts.replicas.stop_partition("t", index)


CHANGES: dict[str, Callable[[Serving, int], None]] = {
    "records": Serving.append,
    "a log start offset": delete_records,
    "no partition": stop,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_told_at_once_and_nothing_else_is_read(serving: Serving, change: Callable[..., None]) -> None:
    async def work() -> None:
        serving.append(3)
        session = Session(serving)
        await session.rest()
        assert len(serving.parts.replicas.resting) == HERE
        change(serving, 3)
        assert len(serving.parts.replicas.resting) == HERE - 1
        await session.fetch()
        assert session.named == {3}

    serving.run(work())


@pytest.mark.parametrize("many", [1, 1 << 20], ids=["in turns", "at once"])
@pytest.mark.parametrize("change", [Serving.append, stop], ids=["records", "no partition"])
def test_a_fetch_that_waits_is_answered(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, change: Callable[..., None], many: int
) -> None:
    """Its partitions all rest when it comes, or a part of them."""
    monkeypatch.setattr(fetch, "MANY_BYTES", many)

    async def work() -> None:
        session = Session(serving)
        await session.rest()
        for index in (3, 4):
            if index == 4:
                # The consumer says something about a partition, which does not rest then.
                session.sent.pop(4)
            waiting = serving.begin(session.request(NEVER_MS))
            await serving.until(lambda: serving.watched == 1)
            change(serving, index)
            session.take(await waiting)
            assert session.named == {index}
            assert serving.watched == 0
            if session.known[index][2]:
                await session.fetch(forget=(index,))
            await session.rest()

    serving.run(work())


def test_what_wakes_while_a_fetch_waits_is_watched_as_long_as_it_waits(serving: Serving) -> None:
    async def work() -> None:
        session = Session(serving)
        await session.rest()
        request = session.request(NEVER_MS)
        request.min_bytes = 3 * len(RECORDS)
        waiting = serving.begin(request)
        for count in range(3):
            assert not waiting.done(), f"it is answered after {count} records"
            serving.append(3)
            for _ in range(10):
                await asyncio.sleep(0)
        session.take(await waiting)
        assert (session.named, session.offsets[3]) == ({3}, 3)

    serving.run(work())


def test_reads_that_are_left_out_are_counted(serving: Serving) -> None:
    async def work() -> None:
        session = Session(serving)
        await session.rest()
        counters = serving.parts.replicas.counters.topic("t")
        before = counters.total_fetch
        await session.fetch()
        await session.fetch()
        assert counters.total_fetch == before + 2 * HERE

    serving.run(work())


def test_a_session_that_ends_leaves_nothing(serving: Serving) -> None:
    async def work() -> None:
        session = Session(serving)
        await session.rest()
        waiting = serving.begin(session.request(wait_ms=50))
        await serving.until(lambda: serving.watched == 1)
        serving.broker.fetch_sessions.forget(session.session_id)
        assert len(serving.parts.replicas.resting) == 0
        session.take(await waiting)
        assert len(serving.parts.replicas.resting) == 0
        assert not session.named

    serving.run(work())


def test_another_reader_of_a_session_gets_what_is_for_it(serving: Serving) -> None:
    """The answer to another reader is made from its own request, not from the rest that the session came to."""

    async def work() -> None:
        session = Session(serving)
        await session.rest()
        request = session.request()
        request.replica_id = FOLLOWER
        answer = await serving.ask(request, version=13)
        codes = {row.error_code for topic in answer.responses for row in topic.partitions}
        assert codes == {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    serving.run(work())


def test_after_some_time_everything_is_read(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        session = Session(serving)
        await session.rest()
        monkeypatch.setattr(fetch_rest, "READ_ALL_AFTER_MS", 0)
        waiting = serving.begin(session.request(NEVER_MS))
        await serving.until(lambda: serving.watched == 1)
        assert len(serving.parts.replicas.resting) == 0
        serving.append(0)
        session.take(await waiting)
        assert session.named == {0}

    serving.run(work())


def test_a_follower_at_the_end_is_caught_up_as_long_as_it_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though no fetch reads the partition: what the leader knows of it is brought up to date when it is needed."""
    clock = [1_000]
    monkeypatch.setattr(Runtime, "monotonic_ms", lambda self: clock[0])

    async def work(serving: Serving) -> None:
        for index in range(HERE):
            serving.parts.assign("t", index, PartitionState((0, FOLLOWER), (0, FOLLOWER), 0, 1))
        session = Session(serving, replica=FOLLOWER)
        await session.rest()
        assert len(serving.parts.replicas.resting) == HERE
        clock[0] = 50_000
        await session.fetch()
        clock[0] = 70_000
        for index in (0, 1):
            partition = serving.parts.replicas.get("t", index)
            assert partition is not None
            assert partition.leading is not None
            if index:
                serving.append(index)
            else:
                serving.parts.replicas.resting.settle(("t", index))
            follower = partition.leading.followers[FOLLOWER]
            assert (follower.last_fetch_ms, follower.last_caught_up_ms, follower.log_end_offset) == (50_000, 50_000, 0)
            assert partition.shrunk_isr() is None
        assert partition is not None
        clock[0] = 50_001 + serving.parts.config["replica.lag.time.max.ms"]
        assert partition.shrunk_isr() == frozenset({0}), "it has not fetched since"

    with Stored(tmp_path, {}) as parts:
        serving = Serving(parts, fetch.HANDLERS)
        serving.run(work(serving))


def test_the_next_life_of_a_follower_is_noted_of_what_rests(serving: Serving) -> None:
    """Its registration has another epoch, and the controller would refuse the ISR that the leader asks for else."""

    async def work() -> None:
        serving.parts.assign("t", 3, PartitionState((0, FOLLOWER), (0, FOLLOWER), 0, 1))
        session = Session(serving, FOLLOWER, offsets={3: 0})

        async def fetch_in(life: int) -> int:
            request = session.request()
            request.replica_id = -1
            request.replica_state = ReplicaState(replica_id=FOLLOWER, replica_epoch=life)
            session.take(await serving.ask(request, version=17))
            partition = serving.parts.replicas.get("t", 3)
            assert partition is not None
            assert partition.leading is not None
            return partition.leading.broker_epochs[FOLLOWER]

        while len(serving.parts.replicas.resting) == 0:
            assert await fetch_in(7) == 7
        assert await fetch_in(8) == 8

    serving.run(work())


def test_a_follower_is_told_of_another_leader_at_once(serving: Serving) -> None:
    async def work() -> None:
        serving.parts.assign("t", 3, PartitionState((0, FOLLOWER), (0, FOLLOWER), 0, 1))
        session = Session(serving, FOLLOWER, offsets={3: 0})
        await session.rest()
        waiting = serving.begin(session.request(NEVER_MS))
        await serving.until(lambda: serving.watched == 1)
        serving.parts.assign("t", 3, PartitionState((0, FOLLOWER), (0, FOLLOWER), FOLLOWER, 2))
        session.take(await waiting)
        assert session.known[3][2] == ErrorCode.FENCED_LEADER_EPOCH

    serving.run(work())


def test_a_follower_that_another_connection_tells_of_is_where_that_tells(serving: Serving) -> None:
    """The session of its former life says nothing any more."""

    async def work() -> None:
        serving.append(0)
        serving.parts.assign("t", 0, PartitionState((0, FOLLOWER), (0, FOLLOWER), 0, 1))
        former = Session(serving, FOLLOWER, offsets={0: 1})
        await former.rest()
        partition = serving.parts.replicas.get("t", 0)
        assert partition is not None
        assert partition.leading is not None
        assert len(serving.parts.replicas.resting) == 1
        await Session(serving, FOLLOWER, offsets={0: 0}).fetch()
        serving.append(0)
        assert partition.leading.followers[FOLLOWER].log_end_offset == 0
        assert partition.high_watermark == 1

    serving.run(work())


FEW = st.integers(0, 1)
OPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), FEW),
        st.tuples(st.just("delete"), FEW),
        st.tuples(st.just("epoch"), FEW),
        st.tuples(st.just("forget"), FEW),
        st.tuples(st.just("ask again"), FEW),
        st.tuples(st.just("fetch"), FEW),
        st.tuples(st.just("rest"), FEW),
    ),
    max_size=40,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(ops=OPS, in_steps=st.booleans())
def test_a_client_always_knows_what_there_is(
    tmp_path_factory: pytest.TempPathFactory, ops: list[tuple[str, int]], in_steps: bool
) -> None:
    """After each fetch, whatever has happened before it."""
    with Stored(tmp_path_factory.mktemp("rest"), {}) as parts, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch_session, "MANY_PARTITIONS", 1 if in_steps else 1000)
        serving = Serving(parts, fetch.HANDLERS)
        serving.run(_play(serving, ops))


async def _play(serving: Serving, ops: list[tuple[str, int]]) -> None:
    session = Session(serving, offsets=dict.fromkeys(range(2), 0))
    for op, index in [*ops, ("fetch", 0)]:
        partition = serving.parts.replicas.get("t", index)
        assert partition is not None
        match op:
            case "append":
                serving.append(index)
            case "delete":
                delete_records(serving, index)
            case "epoch":
                serving.parts.assign("t", index, PartitionState((0,), (0,), 0, partition.leader_epoch + 1))
            case "forget" if len(session.offsets) > 1 and session.epoch:
                await session.fetch(forget=(index,))
            case "ask again":
                session.sent.pop(index, None)
                session.offsets[index] = partition.log.log_start_offset
            case "fetch" | "rest":
                await session.fetch()
                if op == "rest":
                    await session.fetch()
                for each, (high_watermark, log_start, error) in session.known.items():
                    found = serving.parts.replicas.get("t", each)
                    assert found is not None
                    if each not in session.offsets:
                        continue
                    if error:
                        # Records before its position were deleted: it begins anew.
                        session.offsets[each] = found.log.log_start_offset
                        continue
                    assert (high_watermark, log_start) == (found.high_watermark, found.log.log_start_offset)
                    assert session.offsets[each] == found.high_watermark
