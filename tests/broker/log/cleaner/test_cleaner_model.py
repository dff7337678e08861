"""Test a compacted log on a disk that loses unsynced data, driven at random.

The model is the list of what was appended. At any time, and after each crash: a consumer finds of each key the latest
value that was committed; every record is at the offset at which it was appended; nothing is missing that was forced,
but for what a later record of its key made superfluous; the producers' sequence numbers are remembered.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from broker.log.append.validation import Origin
from broker.log.log_config import LogConfig
from kafkalog.records.compression import Codec
from tests.broker.log.cleaner.support import batches_of, clean, keyed, records_of, table_of
from tests.broker.log.lossy_log import PRODUCERS, LossyLogMachine
from tests.broker.log.support import NOW, marker, open_log
from tests.support.amount import examples

KEYS = [b"a", b"b", b"c", b"d"]


class Appended(NamedTuple):
    """One batch, or the marker that ends the producer's transaction."""

    first: int
    last: int
    pairs: tuple[tuple[bytes, bytes | None], ...]
    producer: int = -1
    transactional: bool = False
    commits: bool | None = None


class CompactedLog(LossyLogMachine):
    """See the module."""

    config = LogConfig(
        cleanup_policy=("compact",), segment_bytes=600, index_interval_bytes=150, segment_index_bytes=240,
        file_delete_delay_ms=0, delete_retention_ms=100,
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Appended] = []
        self.now = NOW
        self.cleaned: int | None = None

    def open(self, *, clean: bool) -> None:
        self.log = open_log(
            self.directory, self.config, clean=clean, recovery_point=self.recovery_point, now_ms=self.now, ops=self.ops
        )
        self.log.high_watermark = self.log.log_end_offset
        self.log.cleaned_offset = self.cleaned

    # -- what happens to a log -------------------------------------------------------------------------------

    @rule(
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3),
        tombstone=st.integers(0, 3),
        producer=st.sampled_from(PRODUCERS),
        transactional=st.booleans(),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD]),
    )
    def append(self, keys: list[bytes], tombstone: int, producer: int, transactional: bool, codec: Codec) -> None:
        end = self.log.log_end_offset
        pairs = tuple(
            (key, None if at == tombstone else b"%d.%d" % (end + at, self.generation)) for at, key in enumerate(keys)
        )
        entry = self.log.producers.producers.get(producer)
        open_already = entry is not None and entry.transaction_first_offset >= 0
        transactional = producer >= 0 and (transactional or open_already)
        data = keyed(
            pairs, timestamp=self.now, codec=codec, producer_id=producer, transactional=transactional,
            sequence=entry.next_sequence if entry else 0,
        )  # fmt: skip
        info = self.log.append_batch(data, leader_epoch=0, now_ms=self.now, in_transaction=transactional)
        self.appended(Appended(info.first_offset, info.last_offset, pairs, producer, transactional))

    @rule(producer=st.sampled_from(PRODUCERS[1:]), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        data = marker(producer, commit=commit)
        info = self.log.append_batch(data, leader_epoch=0, now_ms=self.now, origin=Origin.COORDINATOR)
        self.appended(Appended(info.first_offset, info.last_offset, (), producer, True, commit))

    def appended(self, row: Appended) -> None:
        assert not self.rows or row.first > self.rows[-1].last, "an offset was given twice"
        self.rows.append(row)
        self.log.high_watermark = self.log.log_end_offset

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point
        self.cleaned = self.log.cleaned_offset

    def write_recovery_point(self) -> None:
        """As the cleaner does before anything is replaced."""
        self.recovery_point = self.log.recovery_point
        self.ops.note("recovery point")

    @rule(later=st.sampled_from([0, 50, 200]), rolled=st.booleans())
    def clean(self, later: int, rolled: bool) -> None:
        self.now += later
        if rolled:
            self.log.roll(self.now)
        clean(self.log, now_ms=self.now, ops=self.ops, flushed=self.write_recovery_point)
        self.log.remove_deleted(self.now)
        self.agree()

    @rule()
    def restart_cleanly(self) -> None:
        self.log.close()
        self.checkpoint()
        self.open(clean=True)
        self.agree()

    @precondition(lambda self: bool(self.rows))
    @rule(data=st.data(), share=st.floats(0, 1))
    def lose_power(self, data: st.DataObject, share: float) -> None:
        """At some moment of a cleaning, or right before it."""
        begun = len(self.entries)
        checkpoint = self.recovery_point
        clean(self.log, now_ms=self.now, ops=self.ops, flushed=self.write_recovery_point)
        moment = begun + round(share * (len(self.entries) - begun))
        written = [at for at, entry in enumerate(self.entries) if entry[0] == "note"]
        if not written or written[-1] < begun or written[-1] > moment:
            self.recovery_point = checkpoint
        forced = self.recovery_point
        self.lose_what_was_not_forced(data, moment)
        end = self.log.log_end_offset
        assert end >= forced
        self.rows = self.survivors(forced, end)
        self.agree()

    def survivors(self, forced: int, end: int) -> list[Appended]:
        """Return the rows before `end`, but for those that went with the rest of a segment that was not forced.

        No cleaning touches what is not forced, so the batches of such rows are there, or lost. A log that is compacted
        may have gaps between segments. So recovery, as Apache Kafka's, cannot tell when one ends too early.
        """
        batches = {header.base_offset for header, _ in batches_of(self.log)}
        begins = {segment.base_offset for segment in self.log.segments}
        rows = [row for row in self.rows if row.last < end]
        lost = [row for row in rows if row.first >= forced and row.first not in batches]
        for row in lost:
            behind = next((other.first for other in rows if other.first > row.first), end)
            assert behind in begins or any(other.first == behind for other in lost), "lost amid a segment"
        return [row for row in rows if row not in lost]

    # -- what must hold --------------------------------------------------------------------------------------

    def agree(self) -> None:
        log = self.log
        appended = {}
        for row in self.rows:
            appended.update({row.first + at: pair for at, pair in enumerate(row.pairs)})
        for offset, key, value in records_of(log):
            assert appended[offset] == (key, value)
        assert table_of(log) == self.table(log.last_stable_offset)
        fresh = self.replayed_producers()
        for producer_id, entry in log.producers.producers.items():
            found = fresh.producers[producer_id]
            assert (found.epoch, found.next_sequence) == (entry.epoch, entry.next_sequence)
            assert found.transaction_first_offset == entry.transaction_first_offset

    def table(self, stable: int) -> dict[bytes, bytes]:
        """Of each key the latest committed value below `stable`."""
        decided: list[Appended] = []
        pending: dict[int, list[Appended]] = {}
        for row in self.rows:
            if row.commits is not None:
                ended = pending.pop(row.producer, [])
                decided += ended if row.commits else []
            elif row.transactional:
                pending.setdefault(row.producer, []).append(row)
            else:
                decided.append(row)
        table: dict[bytes, bytes] = {}
        for row in sorted(decided):
            if row.first >= stable:
                break
            for key, value in row.pairs:
                if value is None:
                    table.pop(key, None)
                else:
                    table[key] = value
        return table


CompactedLog.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=25, deadline=None)
TestCompactedLog = CompactedLog.TestCase
