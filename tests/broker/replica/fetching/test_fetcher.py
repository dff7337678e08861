"""Test that a defect which one partition meets keeps no other one from being fetched, and that others have turns."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.config.protocol_version import ProtocolVersion
from broker.log.log import Log
from broker.net.links.link import Link
from broker.replica.fetching.fetcher import Fetcher, FetchSettings
from broker.replica.fetching.following import Following
from broker.replica.fetching.truncation import TURN_S
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.schema import Request
from kafkalog.records.batch import Record, encode_batch
from kafkalog.storage import names
from tests.broker.replica.in_process import DEADLINE_S, InProcess, with_broker
from tests.support.wire import batch

LEADER = 9
PARTITIONS = 10
SETTINGS = FetchSettings(ProtocolVersion.parse("0.10.2"), 500, 1, 10 << 20, 1 << 20, backoff=0.01)


class OneRecordLeader(Link):
    """A connection to a leader that has one record in each partition, and answers when someone lacks it."""

    def __init__(self, log_start: int = 0) -> None:
        self._start = log_start

    async def request(
        self, message: Request, *, timeout: float | None = None, max_version: int | None = None, min_version: int = 0
    ) -> Any:
        assert isinstance(message, FetchRequest)
        topics = [
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(
                        partition_index=0,
                        high_watermark=self._start + 1,
                        log_start_offset=self._start,
                        records=encode_batch([Record(self._start, 0, None, b"x", ())], base_offset=self._start),
                    )
                ],
            )
            for topic in message.topics
            if topic.partitions[0].fetch_offset == self._start
        ]
        if not topics:
            await asyncio.Event().wait()
        return FetchResponse(responses=topics)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("truncates", [False, True])
def test_an_unexpected_error_delays_its_partition_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, truncates: bool
) -> None:
    method = "truncate_to" if truncates else "append_as_follower"
    usual = getattr(Log, method)

    def fails_for_bad(log: Log, *args: Any, **options: Any) -> Any:
        if log.topic == "bad":
            raise RuntimeError("a defect")
        return usual(log, *args, **options)

    monkeypatch.setattr(Log, method, fails_for_bad)

    async def work(broker: InProcess) -> None:
        replicas = broker.server.replicas
        follows: list[Following] = []
        for name in ("bad", "good"):
            partition = await broker.create_topic(name)
            broker.assign(partition, leader=LEADER, leader_epoch=1, replicas=(0, LEADER), isr=(0, LEADER))
            follows.append(Following.begin(partition, truncates_on_fetch=False))
        bad, good = follows
        fetcher = Fetcher(LEADER, OneRecordLeader(), replicas, lambda: SETTINGS, lambda: 1)
        try:
            fetcher.add(bad)
            fetcher.add(good)
            await broker.until(lambda: good.offset == 1 and bool(bad.trouble), "one is fetched, the other is delayed")
        finally:
            await fetcher.close()
        assert "a defect" in bad.trouble
        assert good.trouble == ""
        assert (bad.partition.log.log_end_offset, good.partition.log.log_end_offset) == (0, 1)

    with_broker(tmp_path, work)
    (told, *_) = [record for record in caplog.records if record.exc_info]
    assert "bad-0" in told.getMessage()


def test_a_damaged_log_is_not_followed_any_more_and_takes_nothing_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Kafka marks such a partition as failed; the bytes would be met again at each attempt."""

    async def work(broker: InProcess) -> None:
        replicas = broker.server.replicas
        follows: list[Following] = []
        for name in ("bad", "good"):
            partition = await broker.create_topic(name)
            for _ in range(3):
                partition.log.append_batch(memoryview(batch([b"y"])), leader_epoch=0, now_ms=0)
            broker.assign(partition, leader=LEADER, leader_epoch=1, replicas=(0, LEADER), isr=(0, LEADER))
            follows.append(Following.begin(partition, truncates_on_fetch=False))
        bad, good = follows
        bad.offset = 2
        with open(bad.partition.log.active_segment.path(names.LOG), "r+b") as file:
            file.write(b"\xff" * 30)
        fetcher = Fetcher(LEADER, OneRecordLeader(), replicas, lambda: SETTINGS, lambda: 1)
        try:
            fetcher.add(bad)
            fetcher.add(good)
            await broker.until(lambda: good.offset == 1 and bad.has_failed, "one is fetched, the other has failed")
            # An error of the connection does not bring it back.
            fetcher._delay_all("the leader is gone")
            assert "Cannot truncate bad-0 to 2" in bad.trouble
            assert fetcher._current() == [good]
        finally:
            await fetcher.close()
        assert bad.partition.log.offline is None
        assert broker.server.logs.offline_dirs == []
        assert (bad.partition.log.log_end_offset, good.partition.log.log_end_offset) == (3, 1)
        # The next leader epoch tries again.
        broker.assign(bad.partition, leader=LEADER, leader_epoch=2, replicas=(0, LEADER), isr=(0, LEADER))
        assert not Following.begin(bad.partition, truncates_on_fetch=False).has_failed

    with_broker(tmp_path, work)
    (told,) = [record.getMessage() for record in caplog.records if "bad-0 is not fetched" in record.getMessage()]
    assert "kafkalog log verify" in told
    assert str(tmp_path) in told


@pytest.mark.parametrize(("leads_from", "has_followed"), [(2, False), (3, False), (3, True)])
def test_records_of_which_the_leader_has_nothing_do_not_come_back(
    tmp_path: Path, leads_from: int, has_followed: bool
) -> None:
    """The leader may have had other records at their offsets, and deleted them.

    A log that has followed it before has had the same ones. They stay until their segments go, and with them what is
    known of producers.
    """

    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("words")
        log = partition.log
        for _ in range(3):
            log.append_batch(memoryview(batch([b"x"])), leader_epoch=1, now_ms=0)
        broker.assign(partition, leader=LEADER, leader_epoch=4, replicas=(0, LEADER), isr=(LEADER,))
        following = Following.begin(partition, truncates_on_fetch=True)
        if has_followed:
            following.caught(leads_from)
        # As the leader's answer about its epochs says.
        log.truncate_to(leads_from, now_ms=0)
        following.truncated(done=True)
        fetcher = Fetcher(LEADER, OneRecordLeader(leads_from), broker.server.replicas, lambda: SETTINGS, lambda: 1)
        try:
            fetcher.add(following)
            await broker.until(lambda: following.offset == leads_from + 1, "the leader's record is here")
        finally:
            await fetcher.close()
        assert log.log_start_offset == leads_from
        assert [segment.base_offset for segment in log.segments] == [0 if has_followed else leads_from]

    with_broker(tmp_path, work)


def test_other_work_has_its_turn_between_many_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader may have one small batch in each of thousands of partitions."""
    usual, now = Log.append_as_follower, Fetcher._now
    appended = 0
    counts: list[int] = []

    def slowly(log: Log, *args: Any, **options: Any) -> Any:
        nonlocal appended
        appended += 1
        return usual(log, *args, **options)

    monkeypatch.setattr(Log, "append_as_follower", slowly)
    # Each append takes half of a turn.
    monkeypatch.setattr(Fetcher, "_now", lambda fetcher: now(fetcher) + appended * TURN_S / 2)

    async def work(broker: InProcess) -> None:
        follows: list[Following] = []
        for number in range(PARTITIONS):
            partition = await broker.create_topic(f"t{number}")
            broker.assign(partition, leader=LEADER, leader_epoch=1, replicas=(0, LEADER), isr=(0, LEADER))
            follows.append(Following.begin(partition, truncates_on_fetch=False))
        fetcher = Fetcher(LEADER, OneRecordLeader(), broker.server.replicas, lambda: SETTINGS, lambda: 1)
        try:
            for each in follows:
                fetcher.add(each)
            async with asyncio.timeout(DEADLINE_S):
                while appended < PARTITIONS:
                    counts.append(appended)
                    await asyncio.sleep(0)
        finally:
            await fetcher.close()

    with_broker(tmp_path, work)
    gaps = [after - before for before, after in pairwise([*counts, PARTITIONS])]
    # The one in which the time is over is the third at the latest.
    assert max(gaps) <= 3
