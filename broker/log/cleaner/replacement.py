"""Writing the segment that replaces others; the names of its files end with `.cleaned`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from broker.log.log_config import LogConfig
from broker.log.resources import LogResources
from broker.log.segment.segment import Segment
from broker.log.segment.segment_files import KINDS
from kafkalog.storage import names
from kafkalog.storage.transaction_entries import AbortedTransaction

if TYPE_CHECKING:
    from kafkalog.records.cleaning import BatchFilter, Written


class Replacement:
    """Write what a `BatchFilter` leaves of batches, in their order.

    Raises (every method):
        OSError: the disk failed; call `discard`.
    """

    def __init__(
        self,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        batches: BatchFilter,
        resources: LogResources,
    ) -> None:
        self._ops = resources.ops
        self._batches = batches
        self._pending = bytearray()
        config = config.with_changes(preallocate=False)
        self.segment = Segment.create(directory, base_offset, config, now_ms, resources, suffix=names.CLEANED)
        self._begin()

    def _begin(self) -> None:
        segment = self.segment
        self._batches.begin(
            segment.size, segment.bytes_since_index, segment.max_timestamp, segment.max_timestamp_offset
        )

    def before_filter(self) -> None:
        """Write pending batches; call this before the filter writes to its output."""
        if self._pending:
            self.segment.write(memoryview(self._pending))
            self._pending = bytearray()
            self._begin()

    def take_output(self) -> int:
        """Write the filter's output; return the number of bytes."""
        used = self._batches.used
        if used:
            segment = self.segment
            segment.write(memoryview(self._batches.out)[:used])
            rows, since, timestamp, timestamp_offset = self._batches.index_state()
            for offset, position, largest, largest_offset in rows:
                segment.offset_index.append(offset, position)
                segment.time_index.maybe_append(largest, largest_offset)
            segment.bytes_since_index = since
            segment.max_timestamp, segment.max_timestamp_offset = timestamp, timestamp_offset
            self._begin()
        return used

    def add(self, written: Written) -> int:
        """Write a batch that was filtered on its own; return the number of bytes."""
        self.take_output()
        return self.add_batch(written.data, written.header.base_offset, written.header.last_offset, written.header)

    def add_batch(self, data: Any, base_offset: int, last_offset: int, header: Any) -> int:
        """Write one batch, or one message of an older format; return the number of bytes."""
        segment = self.segment
        segment.note_batch(segment.size + len(self._pending), len(data), base_offset, last_offset, header.max_timestamp)
        self._pending += data
        if len(self._pending) >= len(self._batches.out):
            self.before_filter()
        return len(data)

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add rows to the transaction index."""
        for transaction in transactions:
            self.segment.aborted.add(transaction)

    def finish(self, modified_ns: int) -> Segment:
        """Force everything to the device and return the segment.

        The `.log` file's time of change becomes `modified_ns`, because retention may go by it.
        """
        self.take_output()
        self.before_filter()
        segment = self.segment
        segment.finish()
        os.utime(segment.path(names.LOG), ns=(modified_ns, modified_ns))
        segment.flush()
        self._ops.fsync_dir(segment.directory)
        return segment

    def discard(self) -> None:
        """Remove the files. The next opening of the log removes any that cannot be removed now."""
        self.segment.release()
        for kind in KINDS:
            try:
                self._ops.unlink(self.segment.path(kind))
            except OSError:
                return
