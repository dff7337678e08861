"""A walk over the batches of a `.log` file that collects the entries of both indexes.

The walk of a large segment takes seconds, so a worker can do it: the entries are gathered in memory, and the event loop
writes them to the files afterwards (`Segment.rebuild_indexes`). What is appended meanwhile is walked over at the end.
"""

from __future__ import annotations

from threading import Lock

from broker.log.index.time_index import NO_TIMESTAMP
from broker.log.segment.batch_scan import headers
from broker.log.segment.file_slices import SegmentFile
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET, OFFSET_ENTRY, TIME_ENTRY


def misfit(path: str, offset: int, position: int) -> str:
    """Say that the offset index leads to a wrong position."""
    return f"the offset index {path} leads to position {position} for offset {offset}, where the log has no such batch"


class IndexScan:
    """Collect what `Segment.note_batch` would note for each batch of a segment.

    Args:
        file: the `.log` file, which the scan holds open.
        base_offset: of the segment.
        size: bytes of the batches.
        interval: bytes between two entries, `index.interval.bytes`.
        builds: how often the segment's indexes were begun anew before.

    Attributes:
        offsets: the entries of the offset index.
        times: the entries of the time index, without the closing one.
        largest: the largest timestamp, and the last offset of its batch, or else the largest that an entry can hold.
        first: the largest timestamp of the first batch; None if there is no batch.
        since_entry: bytes of the batches after the last entry, with the batch to which it points.
        error: why the walk ended early; the entries up to there are right.
        done: whether the walk has ended at `size`, or with an error.
    """

    __slots__ = (
        "_file", "_interval", "_newest", "_position", "_running", "base_offset", "builds", "done", "error", "first",
        "largest", "offsets", "since_entry", "size", "times",
    )  # fmt: skip

    def __init__(self, file: SegmentFile, base_offset: int, size: int, interval: int, builds: int) -> None:
        self._file = file
        self._interval = interval
        self._running = Lock()
        self.base_offset = base_offset
        self.size = size
        self.builds = builds
        self._clear()
        self.error: RecordsError | None = None
        self.done = False

    def _clear(self) -> None:
        self.offsets = bytearray()
        self.times = bytearray()
        self.largest = NO_TIMESTAMP, self.base_offset
        self.first: int | None = None
        self.since_entry = 0
        self._newest = NO_TIMESTAMP
        """The timestamp of the last entry of the time index."""
        self._position = 0
        """The position up to which batches have been walked over."""

    def grow(self, size: int) -> None:
        """Let the next `run` go on to `size`. Do not call it while one is under way."""
        if self.error is None and size > self.size:
            self.size, self.done = size, False

    def run(self) -> None:
        """Walk over the batches, unless that was done. It blocks; call it on any thread.

        Raises:
            OSError: the disk failed; the next call begins again.
        """
        with self._running:
            if self.done:
                return
            try:
                self._walk()
            except RecordsError as error:
                self.error = error
            except OSError:
                self._clear()
                raise
            self.done = True

    def _walk(self) -> None:
        base, interval = self.base_offset, self._interval
        # Entries can hold no later offset. Those that old brokers wrote are found without entries, by a walk from the
        # last one, until the segment is split (`splitting`).
        farthest = base + MAX_RELATIVE_OFFSET
        for position, header in headers(self._file.fd, self._position, self.size):
            last_offset = header.last_offset
            if header.max_timestamp > self.largest[0]:
                self.largest = header.max_timestamp, min(last_offset, farthest)
            if position == 0:
                self.first = header.max_timestamp
            if self.since_entry > interval and last_offset <= farthest:
                if min(last_offset, self.largest[1]) < base:
                    raise CorruptRecordError(f"offset {last_offset} at position {position} is before {base}")
                self.offsets += OFFSET_ENTRY.pack(last_offset - base, position)
                if self.largest[0] > self._newest:
                    self._newest, offset = self.largest
                    self.times += TIME_ENTRY.pack(self._newest, offset - base)
                self.since_entry = 0
            self.since_entry += header.size
            self._position = position + header.size
