"""Test that a broker with many logs to truncate serves others in between, and that each is safe by then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.config.protocol_version import ProtocolVersion
from broker.log import truncation_plan
from broker.log.index.index_file import BLOCK_BYTES
from broker.log.log import Log
from broker.log.recovery.transaction_rebuild import TransactionRebuild
from broker.log.segment.index_scan import IndexScan
from broker.log.truncation_plan import TruncationPlan
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkError
from broker.replica.divergence import UNDEFINED
from broker.replica.fetching import truncation
from broker.replica.fetching.fetcher import Fetcher, FetchSettings
from broker.replica.fetching.following import Following
from broker.replica.fetching.truncation import LogTruncation
from broker.replica.partition import Partition
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.protocol.messages.fetch import EpochEndOffset
from kafkalog.storage import names
from kafkalog.storage.checkpoints import parse_offsets
from kafkalog.storage.index_entries import OFFSET_ENTRY
from kafkalog.storage.transaction_entries import AbortedTransaction
from tests.broker.replica.in_process import InProcess, with_broker
from tests.support.wire import batch

LEADER = 9


async def followed(broker: InProcess, name: str, batches: int = 3) -> Following:
    """Make a partition whose records are on the disk, and whose leader has one of them."""
    partition = await broker.create_topic(name)
    for _ in range(batches):
        partition.log.append_batch(memoryview(batch([b"x"])), leader_epoch=0, now_ms=0)
    partition.log.flush()
    broker.assign(partition, leader=LEADER, leader_epoch=1, replicas=(0, LEADER), isr=(0, LEADER))
    return Following(partition, partition.leader_epoch, 1, UNDEFINED, truncating=True)


def recovery_points(directory: Path) -> dict[str, int]:
    rows = parse_offsets((directory / "recovery-point-offset-checkpoint").read_bytes())
    return {topic: offset for (topic, _), offset in rows.items()}


def truncation_of(broker: InProcess, link: Link | None = None, version: str = "0.10.2") -> LogTruncation:
    return LogTruncation(
        LEADER,
        link or Link.__new__(Link),
        broker.server.replicas,
        lambda: ProtocolVersion.parse(version),
        lambda each: each.is_current,
        lambda each: None,
        lambda each, why: pytest.fail(why),
    )


def test_others_are_served_between_two_truncations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roles may change then: a log that its broker leads by now keeps its records."""
    monkeypatch.setattr(truncation, "TURN_S", 0.0)

    async def work(broker: InProcess) -> None:
        server = broker.server
        logs = [await followed(broker, name) for name in ("a", "b", "c")]
        server.logs.checkpoints.write_recovery_points()
        assert recovery_points(tmp_path) == {"a": 3, "b": 3, "c": 3}
        seen: list[tuple[int, ...]] = []

        async def others() -> None:
            while True:
                ends = tuple(each.partition.log.log_end_offset for each in logs)
                if ends not in seen:
                    seen.append(ends)
                    if ends[1] == 1:
                        leads(logs[2].partition)
                await asyncio.sleep(0)

        def leads(partition: Partition) -> None:
            broker.assign(partition, leader=0, leader_epoch=2, replicas=(0, LEADER), isr=(0, LEADER))

        tested = truncation_of(broker)
        other = asyncio.create_task(others())
        await tested.truncate(logs)
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        assert seen == [(1, 3, 3), (1, 1, 3)]
        assert recovery_points(tmp_path) == {"a": 1, "b": 1, "c": 3}

    with_broker(tmp_path, work)


def test_what_is_appended_after_a_truncation_is_not_clean_after_a_restart(tmp_path: Path) -> None:
    """As the leader of an unclean election may have other records than those that were cleaned here."""

    async def work(broker: InProcess) -> None:
        checkpoints = broker.server.logs.checkpoints
        logs = [await followed(broker, name) for name in ("a", "b")]
        for each in logs:
            each.partition.log.cleaned_offset = 2
        checkpoints.write_cleaned_offsets()
        await truncation_of(broker).truncate(logs[:1])
        rows = parse_offsets((tmp_path / names.CLEANER_CHECKPOINT).read_bytes())
        assert rows == {("a", 0): 1, ("b", 0): 2}

    with_broker(tmp_path, work)


def test_others_are_served_although_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart, where the logs of many partitions end where the leader says."""
    monkeypatch.setattr(truncation, "TURN_S", 0.0)

    async def work(broker: InProcess) -> None:
        logs = [await followed(broker, name) for name in ("a", "b", "c")]
        for each in logs:
            each.offset = each.partition.log.log_end_offset
        still_truncating: list[int] = []

        async def others() -> None:
            while True:
                still_truncating.append(sum(each.truncating for each in logs))
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        await truncation_of(broker).truncate(logs)
        other.cancel()
        assert still_truncating == [2, 1, 0]

    with_broker(tmp_path, work)


class Reading:
    """The reading of a worker for a truncation, which a test holds up."""

    def __init__(self, patch: pytest.MonkeyPatch, quick_bytes: int = -1) -> None:
        self._go_on = threading.Event()
        self.threads: list[threading.Thread] = []
        usual = TruncationPlan.read

        def read(plan: TruncationPlan) -> None:
            self.threads.append(threading.current_thread())
            assert threading.current_thread() is threading.main_thread() or self._go_on.wait(60)
            usual(plan)

        patch.setattr(truncation_plan, "QUICK_BYTES", quick_bytes)
        patch.setattr(TruncationPlan, "read", read)

    @property
    def is_held(self) -> bool:
        return any(thread is not threading.main_thread() for thread in self.threads)

    def go_on(self) -> None:
        self._go_on.set()


def test_a_worker_reads_while_the_log_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)

    async def work(broker: InProcess) -> None:
        each = await followed(broker, "a")
        log = each.partition.log
        task = asyncio.create_task(truncation_of(broker).truncate([each]))
        await broker.until(lambda: bool(reading.threads), "the worker reads")
        assert log.log_end_offset == 3
        assert log.read(0, 1 << 20).size == log.size
        assert each.truncating
        reading.go_on()
        await task
        assert (log.log_end_offset, each.offset, each.truncating) == (1, 1, False)
        assert threading.main_thread() not in reading.threads
        assert len(reading.threads) == 1

    with_broker(tmp_path, work)


class Flushing:
    """The flushes of logs, each of which goes on when `act` has returned."""

    def __init__(self, patch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
        self.calls: list[tuple[threading.Thread, int | None]] = []
        usual = Log.flush

        def flush(log: Log, upto: int | None = None) -> None:
            self.calls.append((threading.current_thread(), upto))
            act()
            usual(log, upto)

        patch.setattr(truncation_plan, "QUICK_SYNC_BYTES", 0)
        patch.setattr(Log, "flush", flush)


def no_room() -> None:
    raise KafkaStorageError("No room for index entries")


@pytest.mark.parametrize("act", [lambda: None, no_room], ids=["flushed", "a full disk"])
def test_a_worker_flushes_what_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """A truncation forces the file that it cuts to the device: that may be all that was appended in half a minute."""

    async def work(broker: InProcess) -> None:
        each = await followed(broker, "a")
        log = each.partition.log
        broker.assign(each.partition, leader=0, leader_epoch=2, replicas=(0, LEADER), isr=(0, LEADER))
        for _ in range(3):
            log.append_batch(memoryview(batch([b"x"])), leader_epoch=2, now_ms=0)
        broker.assign(each.partition, leader=LEADER, leader_epoch=3, replicas=(0, LEADER), isr=(0, LEADER))
        each = Following(each.partition, each.partition.leader_epoch, 5, UNDEFINED, truncating=True)
        flushing = Flushing(monkeypatch, act)
        await truncation_of(broker).truncate([each])
        assert (log.log_end_offset, each.offset, each.truncating) == (5, 5, False)
        ((thread, upto),) = flushing.calls
        assert thread is not threading.main_thread()
        assert upto == 5

    with_broker(tmp_path, work)


def test_a_log_that_is_deleted_while_it_is_flushed_is_not_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_flushing, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        is_flushing.set()
        assert go_on.wait(60)

    async def work(broker: InProcess) -> None:
        each = await followed(broker, "a")
        for _ in range(2):
            each.partition.log.append_batch(memoryview(batch([b"x"])), leader_epoch=1, now_ms=0)
        each.offset = 4
        Flushing(monkeypatch, wait)
        task = asyncio.create_task(truncation_of(broker).truncate([each]))
        await broker.until(is_flushing.is_set, "the worker flushes")
        broker.server.replicas.stop_partition("a", 0)
        broker.server.logs.delete("a", 0)
        go_on.set()
        await task
        assert each.partition.log.log_end_offset == 5
        assert broker.server.logs.offline_dirs == []

    with_broker(tmp_path, work)


def lying_index(log: Log) -> None:
    """Let entries in the middle of the active segment's offset index lead to wrong positions."""
    log.config = log.config.with_changes(index_interval_bytes=0)
    for _ in range(BLOCK_BYTES // OFFSET_ENTRY.size + 1):
        log.append_batch(memoryview(batch([b"y"])), leader_epoch=0, now_ms=0)
    path = Path(log.active_segment.path(names.INDEX))
    written = path.read_bytes()
    path.write_bytes(written[:8] + b"\0\0\0\2\0\0\0\7" * 100 + written[808:])
    log.active_segment.positions.clear()


def damaged_transactions(log: Log) -> None:
    """Damage the transaction index of the active segment."""
    log.active_segment.aborted.replace([AbortedTransaction(1, 0, 1, 0)])
    log.active_segment.aborted.spoil()


@pytest.mark.parametrize("damage", [lying_index, damaged_transactions])
def test_a_worker_rebuilds_the_indexes_before_a_truncation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Log], None]
) -> None:
    """It may read the whole log."""
    threads: list[threading.Thread] = []
    for kind in (IndexScan, TransactionRebuild):

        def told(self: Any, walk: Callable[[Any], None] = kind._walk) -> None:
            threads.append(threading.current_thread())
            walk(self)

        monkeypatch.setattr(kind, "_walk", told)

    async def work(broker: InProcess) -> None:
        each = await followed(broker, "a", batches=30)
        log = each.partition.log
        damage(log)
        each.offset = 20
        await truncation_of(broker).truncate([each])
        assert (log.log_end_offset, each.offset, each.truncating) == (20, 20, False)
        assert log.active_segment.aborted.index.items() == []
        assert len(threads) == 1
        assert threading.main_thread() not in threads

    with_broker(tmp_path, work)


@pytest.mark.parametrize("change", ["leads", "follows again", "is deleted"])
def test_a_role_that_changes_while_a_worker_reads_ends_the_truncation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    reading = Reading(monkeypatch)

    async def work(broker: InProcess) -> None:
        each = await followed(broker, "a")
        partition, log = each.partition, each.partition.log
        task = asyncio.create_task(truncation_of(broker).truncate([each]))
        await broker.until(lambda: bool(reading.threads), "the worker reads")
        if change == "is deleted":
            broker.server.logs.delete("a", 0)
        else:
            leader = 0 if change == "leads" else LEADER
            broker.assign(partition, leader=leader, leader_epoch=2, replicas=(0, LEADER), isr=(0, LEADER))
            log.append_batch(memoryview(batch([b"y"])), leader_epoch=2, now_ms=0)
        end = log.log_end_offset
        reading.go_on()
        await task
        assert log.log_end_offset == end
        assert broker.server.logs.offline_dirs == []

    with_broker(tmp_path, work)


def test_what_a_worker_read_of_a_log_that_has_changed_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention may remove segments meanwhile, and the state of producers begins later then."""
    reading = Reading(monkeypatch)

    async def work(broker: InProcess) -> None:
        each = await followed(broker, "a")
        log = each.partition.log
        each.offset = 2
        task = asyncio.create_task(truncation_of(broker).truncate([each]))
        await broker.until(lambda: bool(reading.threads), "the worker reads")
        log.high_watermark = 1
        log.delete_records(1)
        reading.go_on()
        await task
        assert (log.log_start_offset, log.log_end_offset) == (1, 2)
        assert threading.main_thread() in reading.threads

    with_broker(tmp_path, work)


@pytest.mark.parametrize("way", ["truncate", "diverge"])
def test_a_log_is_safe_before_a_worker_reads_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The reading may take seconds, and records may be appended to the first log meanwhile."""
    monkeypatch.setattr(truncation, "TURN_S", float("inf"))
    reading = Reading(monkeypatch, quick_bytes=500)

    async def work(broker: InProcess) -> None:
        short, long = await followed(broker, "a"), await followed(broker, "b", batches=30)
        long.offset = 20
        broker.server.logs.checkpoints.write_recovery_points()
        assert recovery_points(tmp_path) == {"a": 3, "b": 30}
        tested = truncation_of(broker)

        async def diverge() -> None:
            for each in (short, long):
                await tested.diverge(each, EpochEndOffset(epoch=0, end_offset=each.offset))
                await tested.end_turn()
            await tested.lower_recovery_points()

        task = asyncio.create_task(tested.truncate([short, long]) if way == "truncate" else diverge())
        await broker.until(lambda: reading.is_held, "the worker reads")
        assert (short.partition.log.log_end_offset, long.partition.log.log_end_offset) == (1, 30)
        assert recovery_points(tmp_path) == {"a": 1, "b": 30}
        reading.go_on()
        await task
        assert recovery_points(tmp_path) == {"a": 1, "b": 20}

    with_broker(tmp_path, work)


def test_a_log_is_safe_before_the_leader_is_asked_about_others(tmp_path: Path) -> None:
    """Some logs have no leader epochs; the leader may take long to answer for those that have."""
    seen: list[dict[str, int]] = []

    class LostLink(Link):
        async def request(self, *_args: Any, **_settings: Any) -> Any:
            seen.append(recovery_points(tmp_path))
            raise LinkError("the leader is gone")

    async def work(broker: InProcess) -> None:
        without, other = await followed(broker, "a"), await followed(broker, "b")
        without.partition.log.epochs.clear()
        broker.server.logs.checkpoints.write_recovery_points()
        with pytest.raises(LinkError):
            await truncation_of(broker, LostLink.__new__(LostLink), "3.9").truncate([other, without])
        assert seen == [{"a": 1, "b": 3}]

    with_broker(tmp_path, work)


class SilentLeader(Link):
    """A connection to a leader that answers nothing."""

    def __init__(self) -> None:
        pass

    async def request(self, *_args: Any, **_settings: Any) -> Any:
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("end", ["the partition is followed no more", "the connection is closed"])
def test_a_log_is_safe_before_it_has_another_role_although_no_worker_is_free(tmp_path: Path, end: str) -> None:
    settings = FetchSettings(ProtocolVersion.parse("0.10.2"), 500, 1, 10 << 20, 1 << 20, backoff=0.01)
    is_free = threading.Event()

    async def work(broker: InProcess) -> None:
        each = await followed(broker, "a")
        broker.server.logs.checkpoints.write_recovery_points()
        workers = broker.server.runtime.workers
        busy = [workers.run(is_free.wait, 60) for _ in range(8)]
        fetcher = Fetcher(LEADER, SilentLeader(), broker.server.replicas, lambda: settings, lambda: 1)
        try:
            fetcher.add(each)
            await broker.until(lambda: each.partition.log.log_end_offset == 1, "the log is truncated")
            assert recovery_points(tmp_path) == {"a": 3}
            if end == "the connection is closed":
                await fetcher.close()
            else:
                fetcher.remove(each.partition.key)
            assert recovery_points(tmp_path) == {"a": 1}
        finally:
            is_free.set()
            await asyncio.gather(*busy)
            await fetcher.close()

    with_broker(tmp_path, work)
