"""Check what a broker must still have after a power cut."""

from __future__ import annotations

import asyncio
import uuid
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from broker.log.log import Log
from broker.log.producer_state.control_batches import parse_marker
from broker.replica.partition import Partition
from kafkalog.records.batch import iter_headers
from tests.broker.log.support import NOW, batch
from tests.crash import compacted
from tests.crash.compacted import Records
from tests.crash.host import Host, Key, Row, rows_at, rows_of
from tests.crash.lossy_disk import Entry, NoSync

PRODUCERS = (5, 6)
"""The producer ids of idempotent and transactional batches."""


@dataclass(frozen=True)
class PartitionState:
    """The known state of a partition at one moment."""

    start: int
    end: int
    flushed: int
    """The offset up to which the broker claims to have flushed."""
    start_stored: int
    """The log start offset that was checkpointed."""


@dataclass(frozen=True)
class Moment:
    """The known state of the whole broker at one moment of the record."""

    at: int
    topics: dict[str, uuid.UUID]
    partitions: dict[Key, PartitionState]


@dataclass
class Life:
    """The record of one life of the disk, and the known states during it."""

    root: Path
    entries: list[Entry] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    rows: dict[Key, list[Row]] = field(default_factory=dict)
    records: dict[Key, Records] = field(default_factory=dict)
    """The records of compacted partitions, whose batches change."""
    told: list[str] = field(default_factory=list)


class Judge:
    """Start a broker on what a power cut left, and check these conditions.

    * It starts, with no log directory offline.
    * Every topic whose creation was answered exists, and none whose deletion was answered.
    * Every flushed batch is there, byte for byte at its offset. All other batches were appended, and are whole, in
      order and without a gap.
    * The log does not begin after its last log start offset, nor before the checkpointed one.
    * Leader epochs, producers and aborted transactions are those of the batches.
    * Appends go on at the log end offset.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, life: Life, settings: dict[str, str]) -> None:
        self.loop = loop
        self.life = life
        self.settings = settings

    def judge(self, image: Path, at: int) -> None:
        moments = self.life.moments
        index = bisect_right([moment.at for moment in moments], at) - 1
        before = moments[index] if index >= 0 else Moment(0, {}, {})
        after = moments[min(index + 1, len(moments) - 1)]
        host = Host(self.loop, image, self.settings, NoSync())
        try:
            logs = host.server.logs
            assert not logs.offline_dirs, f"offline: {[d.offline for d in logs.offline_dirs]}"
            for name, topic_id in before.topics.items():
                if after.topics.get(name) == topic_id:
                    assert host.topics.get(name) == topic_id, f"topic {name} is lost"
            for name, topic_id in host.topics.items():
                assert topic_id in (before.topics.get(name), after.topics.get(name)), f"topic {name} is back"
            for key, partition in host.partitions().items():
                self.check(partition, key, before.partitions.get(key), after.partitions.get(key))
        finally:
            host.kill()

    def check(
        self, partition: Partition, key: Key, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        log = partition.log
        assert log.offline is None
        where = f"{log} (known: {before} to {after})"
        start, end = log.log_start_offset, log.log_end_offset
        upper = after or before
        assert upper is not None, f"{where}: a partition that never was"
        assert start <= max(upper.start, before.start if before else 0), f"{where}: begins too late"
        if before is not None:
            assert end >= before.flushed, f"{where}: flushed records are lost"
            assert start >= before.start_stored, f"{where}: deleted records are back"
        if log.config.compact:
            compacted.check(log, self.life.records.get(key, {}), before.flushed if before else 0, where)
            self.check_append(partition, end)
            return
        rows = rows_of(log)
        known = self.life.rows.get(key, [])
        expected = [row for row in known if start <= row.last and row.last < end]
        if rows != expected:
            told = "; ".join(
                f"{name} {[row[:6] for row in some[-8:]]}" for name, some in (("found", rows), ("appended", expected))
            )
            raise AssertionError(f"{where}: not what was appended: {told}")
        assert not rows or rows[-1].last + 1 == end, f"{where}: ends with {rows[-1][:4]}"
        self.check_state(log, rows, where)
        self.check_append(partition, end)

    def check_append(self, partition: Partition, end: int) -> None:
        if partition.is_leader:
            data = batch(1, key=b"k")
            info = partition.log.append_batch(data, leader_epoch=max(partition.leader_epoch, 0), now_ms=NOW)
            assert info.first_offset == end

    def check_state(self, log: Log, rows: list[Row], where: str) -> None:
        # As in Kafka, epochs before a log start offset are forgotten, whether or not a crash brings the records back.
        first = log.epochs.entries()[0][1] if log.epochs.entries() else 0
        for row in rows:
            if row.base >= first:
                assert log.epochs.epoch_for_offset(row.base) == row.epoch, f"{where}: {log.epochs.entries()}, {row[:4]}"
            assert rows_at(log, row.last) == row.base, f"{where}: {row.last} is not found in {row[:4]}"
        if rows and rows[0].base == 0:
            found = {row[:3] for row in log.aborted_transactions(0, log.log_end_offset)}
            assert found == aborted_in(rows), f"{where}: aborted {sorted(found)}, not {sorted(aborted_in(rows))}"
        for producer in PRODUCERS:
            written = [row for row in rows if row.producer == producer and not row.marker]
            if written:
                entry = log.producers.producers.get(producer)
                assert entry is not None, f"{where}: producer {producer} is forgotten"
                assert entry.batches[-1].last_offset == written[-1].last, (
                    f"{where}: producer {producer}: {entry.batches}"
                )
                assert entry.batches[-1].last_sequence == written[-1].last_sequence
                markers = [row.base for row in rows if row.producer == producer and row.marker]
                if markers and markers[-1] > written[-1].last:
                    assert entry.transaction_first_offset < 0, f"{where}: a decided transaction is open"


def aborted_in(rows: list[Row]) -> set[tuple[int, int, int]]:
    """Return `(producer id, first offset, offset of the marker)` of each aborted transaction in the batches."""
    begun: dict[int, int] = {}
    found = set()
    for row in rows:
        ((_, header),) = iter_headers(memoryview(row.data))
        if row.marker:
            end = parse_marker(memoryview(row.data))
            first = begun.pop(row.producer, None)
            if first is not None and end is not None and end.aborted:
                found.add((row.producer, first, row.last))
        elif header.is_transactional:
            begun.setdefault(row.producer, row.base)
    return found
