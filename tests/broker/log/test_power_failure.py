"""Test a log on a disk that loses unsynced data, driven at random.

After each crash: the log is a gapless part of what was appended, nothing is missing that a flush had forced,
look-ups by offset and time agree with the batches, and the producer state is the one that the batches make.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from broker.log.append.validation import Origin
from broker.log.log_config import LogConfig
from tests.broker.log.by_time import found_by_time
from tests.broker.log.lossy_log import PRODUCERS, LossyLogMachine
from tests.broker.log.support import NOW, Stored, batch, marker, open_log, stored
from tests.support.amount import examples


class LogOnALossyDisk(LossyLogMachine):
    """The model is the list of batches, and how far the log was forced to the disk."""

    config = LogConfig(
        segment_bytes=1000, index_interval_bytes=150, segment_index_bytes=240, file_delete_delay_ms=0,
        retention_bytes=4000,
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Stored] = []
        self.epoch = 0
        self.times: dict[int, int] = {}
        # What the other checkpoint file of the log directory says.
        self.log_start = 0

    def open(self, *, clean: bool) -> None:
        self.log = open_log(
            self.directory, self.config, clean=clean, recovery_point=self.recovery_point,
            log_start_offset=self.log_start, ops=self.ops,
        )  # fmt: skip
        self.log.high_watermark = self.log.log_end_offset

    # -- what happens to a log -------------------------------------------------------------------------------

    @rule(
        sizes=st.lists(st.integers(0, 250), min_size=1, max_size=3),
        producer=st.sampled_from(PRODUCERS),
        transactional=st.booleans(),
        later=st.integers(0, 50),
    )
    def append(self, sizes: list[int], producer: int, transactional: bool, later: int) -> None:
        end = self.log.log_end_offset
        values = tuple(b"%d:%d:" % (end + i, self.generation) + b"v" * size for i, size in enumerate(sizes))
        timestamp = NOW + end * 10 + later
        entry = self.log.producers.producers.get(producer)
        transactional = transactional or (entry is not None and entry.transaction_first_offset >= 0)
        data = batch(
            values, timestamp=timestamp, producer_id=producer, producer_epoch=0 if producer >= 0 else -1,
            base_sequence=(entry.next_sequence if entry else 0) if producer >= 0 else -1,
            is_transactional=transactional and producer >= 0,
        )  # fmt: skip
        info = self.log.append_batch(data, leader_epoch=self.epoch, now_ms=NOW, in_transaction=transactional)
        self.appended(Stored(info.first_offset, info.last_offset, values), timestamp)

    @rule(producer=st.sampled_from(PRODUCERS[1:]), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        data = marker(producer, commit=commit)
        info = self.log.append_batch(data, leader_epoch=self.epoch, now_ms=NOW, origin=Origin.COORDINATOR)
        self.rows.append(stored(self.log, info.first_offset)[0])
        self.times[info.first_offset] = NOW
        self.log.high_watermark = self.log.log_end_offset

    def appended(self, row: Stored, timestamp: int) -> None:
        self.rows.append(row)
        self.times[row.base_offset] = timestamp
        self.log.high_watermark = self.log.log_end_offset

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(due_only=st.booleans())
    def flush(self, due_only: bool) -> None:
        if due_only:
            self.log.flush_if_due(NOW)
        else:
            self.log.flush()

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point
        self.log_start = self.log.log_start_offset

    @rule()
    def retention(self) -> None:
        self.log.apply_retention(NOW)
        self.log.remove_deleted(NOW)
        self.agree()

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(self.log.log_end_offset - back, self.log.log_start_offset)
        self.log.truncate_to(offset, now_ms=NOW)
        end = self.log.log_end_offset
        assert end <= offset or back == 0
        self.rows = [row for row in self.rows if row.last_offset < end]
        assert self.rows == [] or self.rows[-1].last_offset + 1 == end or end == self.log.log_start_offset
        self.log.high_watermark = end
        self.epoch += 1
        # As the manager does after a truncation.
        self.checkpoint()
        self.agree()

    @rule()
    def restart_cleanly(self) -> None:
        self.log.close()
        self.checkpoint()
        self.open(clean=True)
        self.agree()

    @precondition(lambda self: bool(self.rows))
    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        forced = self.log.recovery_point
        self.lose_what_was_not_forced(data)
        end = self.log.log_end_offset
        assert end >= min(forced, self.rows[-1].last_offset + 1), f"forced up to {forced}, found {self.log}"
        self.rows = [row for row in self.rows if row.last_offset < end]
        self.agree()

    @rule()
    def kill(self) -> None:
        """The process is gone: what was written is there, forced to the device or not."""
        self.open(clean=False)
        self.agree()

    # -- what must hold --------------------------------------------------------------------------------------

    @invariant()
    def ends_with_what_was_appended(self) -> None:
        if hasattr(self, "log"):
            log = self.log
            assert self.rows == [] or log.log_end_offset == self.rows[-1].last_offset + 1
            for row in self.rows[-2:]:
                if row.base_offset >= log.log_start_offset:
                    assert stored(log, row.base_offset)[0] == row

    def agree(self) -> None:
        """Look-ups and producer state are those of the batches."""
        log = self.log
        rows = stored(log)
        assert rows == [row for row in self.rows if row.last_offset >= log.log_start_offset]
        for row in rows:
            for offset in {row.base_offset, row.last_offset}:
                assert stored(log, offset)[0] == row
            timestamp = self.times[row.base_offset]
            wanted = next(r.base_offset for r in rows if self.times[r.base_offset] >= timestamp)
            found = found_by_time(log, timestamp)
            assert found is not None
            assert found.offset == max(wanted, log.log_start_offset)
        for producer_id, entry in self.replayed_producers().producers.items():
            kept = log.producers.producers[producer_id]
            assert (kept.epoch, kept.next_sequence) == (entry.epoch, entry.next_sequence)
            # But for its time: a snapshot has one for the batch and the marker after it.
            assert [row[:3] for row in kept.batches[-1:]] == [row[:3] for row in entry.batches[-1:]]


LogOnALossyDisk.TestCase.settings = settings(max_examples=examples(300), stateful_step_count=30, deadline=None)
TestLogOnALossyDisk = LogOnALossyDisk.TestCase


class LongSearch(LogOnALossyDisk):
    """Other lives each time, and longer ones; a failing one is printed as a program, with what makes it again."""


LongSearch.TestCase.settings = settings(
    max_examples=int(os.environ.get("KAFKALOG_SOAK_COUNT", "3000")), stateful_step_count=60, deadline=None,
    derandomize=False,
)  # fmt: skip
TestLongSearch = pytest.mark.soak(pytest.mark.timeout(4 * 3600)(LongSearch.TestCase))
