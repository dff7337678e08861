"""Reads pieces of segments as Arrow record batches, on an executor.

A file is read a few MiB at a time, cut between batches, checked and decoded like the data that a broker sends. The
positions from planning are checked again: a segment that was compacted since is searched from its beginning. If bytes
are damaged, batches are read one by one, so that as little as possible is lost. A batch that is too large is no damage,
and is never skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kafkalog.client.types import TopicPartition
from kafkalog.records.arrow import decode_arrow
from kafkalog.records.batch import HEADER_SIZE, MAGIC, MAGIC_AT
from kafkalog.records.errors import RecordsError
from kafkalog.records.legacy.convert import upgraded
from kafkalog.records.stretches import cut
from kafkalog.storage.batch_walk import stated_size
from kafkalog.storage.names import TXN_INDEX, segment_name
from kafkalog.storage.transaction_entries import usable_aborted
from spark_kafkalog.data_loss import Condition, reporter
from spark_kafkalog.executor import python_worker
from spark_kafkalog.executor.batch_pieces import PIECE_BYTES, PIECE_ROWS, BatchTooLargeError, bounded
from spark_kafkalog.fs.interface import File, FileSystem
from spark_kafkalog.fs.opening import file_system
from spark_kafkalog.offline.aborted_transactions import Aborted, aborted_before
from spark_kafkalog.offline.corrupt_log import CorruptLogError
from spark_kafkalog.offline.offline_options import OfflineOptions
from spark_kafkalog.offline.replica_directory import inspect, load_index, read_small, walk
from spark_kafkalog.offline.segment import Batches, after_damage
from spark_kafkalog.offline.segment_pieces import Segment, SegmentPiece

logger = logging.getLogger(__name__)

READ_BYTES = 4 << 20
"""Bytes of one read, unless a batch is larger."""
OLD_PIECE_BYTES = 1 << 20
"""The most bytes of messages of v0 and v1 that are converted at once, in memory, to batches of v2."""


@dataclass
class OfflinePartition(InputPartition):
    """One task: pieces of segments. Those of one partition are in the order of their offsets."""

    pieces: list[SegmentPiece]


def read_pieces(
    pieces: Sequence[SegmentPiece], options: OfflineOptions, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Read the records of all pieces as batches with exactly `columns`.

    Raises:
        CorruptLogError: Bytes are damaged, and `failOnDataLoss` is set.
        BatchTooLargeError: A batch expands to more than `maxBatchBytes`.
        DataLossError: Segments were deleted, and `failOnDataLoss` is set.
    """
    with python_worker.task(options.source.keep_freed_memory):
        for piece in pieces:
            yield from _read(piece, options, columns)


def _read(piece: SegmentPiece, options: OfflineOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    fs = file_system(piece.segment.path)
    try:
        file = fs.open(piece.segment.path)
    except FileNotFoundError:
        tp = TopicPartition(piece.topic, piece.partition)
        reporter(options.source.fail_on_data_loss)(
            Condition.COULD_NOT_READ,
            f"Could not read {piece.end - piece.start} offsets [{piece.start}, {piece.end}) of {tp}: "
            f"{piece.segment.path} was removed or compacted after the query was planned. Load the data frame again.",
        )
        return
    with closing(file):
        reader = _PieceReader(fs, file, piece, options)
        try:
            yield from reader.batches(columns)
        finally:
            reader.close()


class _PieceReader:
    """The state of reading one piece."""

    def __init__(self, fs: FileSystem, file: File, piece: SegmentPiece, options: OfflineOptions) -> None:
        self._fs = fs
        self._piece = piece
        self._tp = TopicPartition(piece.topic, piece.partition)
        self._segment = piece.segment
        self._options = options.source
        self._next = piece.start
        """The next offset to read: records below it are skipped."""
        self._at, self._until = piece.position, piece.until
        self._batches = Batches(file, piece.segment.path, piece.segment.size)
        if not self._is_as_planned(file):
            logger.info("%s changed after the query was planned; it is read from its beginning", self._segment.path)
            self._at, self._until = 0, file.size
            self._batches = Batches(file, piece.segment.path)
        self._thread = None if fs.is_local else ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._ahead: tuple[int, Future[memoryview]] | None = None

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def batches(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        aborted = self._aborted() if self._options.client.isolation_level else []
        while self._at < self._until and self._next < self._piece.end:
            chunk = self._take()
            stretches = cut(chunk, max_records=PIECE_ROWS, max_bytes=PIECE_BYTES, max_old_bytes=OLD_PIECE_BYTES)
            at = self._at
            if not stretches:
                yield from self._next_one(columns, aborted)
                continue
            self._at = at + stretches[-1].end
            self._ask()
            for stretch in stretches:
                records = chunk[stretch.begin : stretch.end]
                try:
                    yield from self._decode(records, stretch.behind, columns, aborted)
                except RecordsError:
                    behind = self._at
                    yield from self._one_by_one(at + stretch.begin, at + stretch.end, columns, aborted)
                    self._at = max(self._at, behind)
        self._check_reached()

    # Bytes

    def _is_as_planned(self, file: File) -> bool:
        """Return whether positions still hold: a sealed segment has the same size, and batches begin where they did."""
        planned = self._segment
        if file.size < planned.size or (file.size != planned.file_size and not planned.is_tail):
            return False
        first = self._piece.first
        return first is None or self._batches.is_batch(self._at, first, first + 1) is not None

    def _take(self) -> memoryview:
        """Read from the position: READ_BYTES, or one batch if that is larger."""
        file = self._batches.file
        if self._ahead is not None and self._ahead[0] == self._at:
            chunk = self._ahead[1].result()
        else:
            chunk = file.read(self._at, min(READ_BYTES, self._until - self._at))
        self._ahead = None
        if len(chunk) >= HEADER_SIZE:
            size = stated_size(chunk)
            if chunk[MAGIC_AT] <= MAGIC and len(chunk) < size <= self._until - self._at:
                return file.read(self._at, size)
        return chunk

    def _ask(self) -> None:
        """Read ahead if the file system is remote."""
        if self._thread is not None and self._at < self._until:
            size = min(READ_BYTES, self._until - self._at)
            self._ahead = self._at, self._thread.submit(self._batches.file.read, self._at, size)

    # Records

    def _decode(
        self, records: memoryview, behind: int, columns: tuple[str, ...], aborted: list[Aborted]
    ) -> Iterator[pa.RecordBatch]:
        """Decode whole batches. After an error, decoding can go on without yielding a record twice."""
        end = self._piece.end
        if converted := records[MAGIC_AT] < MAGIC:
            made = upgraded(records, check_crc=self._options.client.check_crcs, max_size=self._options.max_batch_bytes)
            records = memoryview(b"".join([each.records for each in made]))
        while self._next < min(behind, end):
            # A transaction whose marker lies before these batches must not be named: it would swallow the next.
            batch, next_offset = decode_arrow(
                records,
                topic=self._piece.topic,
                partition=self._piece.partition,
                start=self._next,
                end=end,
                columns=columns,
                aborted=_touching(aborted, records, behind),
                check_crc=self._options.client.check_crcs,
                max_batch=self._options.max_batch_bytes,
                converted=converted,
            )
            if next_offset <= self._next:
                break
            self._next = next_offset
            if batch is not None and batch.num_rows:
                yield batch

    def _one_by_one(
        self, at: int, end: int, columns: tuple[str, ...], aborted: list[Aborted]
    ) -> Iterator[pa.RecordBatch]:
        """Decode the batches at [at, end), one of which is damaged, and report the damaged one."""
        self._at = at
        while self._at < end and self._next < self._piece.end:
            yield from self._next_one(columns, aborted)

    def _next_one(self, columns: tuple[str, ...], aborted: list[Aborted]) -> Iterator[pa.RecordBatch]:
        """Return the batch at the position if it is valid; else report it, and move to the next valid one."""
        why = "the file ends within a batch"
        try:
            header = self._batches.checked(self._at)
            if header is not None:
                records = self._batches.bytes_at(self._at, header.size)
                # The checksum is right here, so that a batch which is too large is what its sender meant.
                with bounded(self._tp, self._next):
                    yield from self._decode(records, header.next_offset, columns, aborted)
                self._at += header.size
                return
        except BatchTooLargeError:
            raise
        except RecordsError as error:
            why = str(error)
        base, end = self._segment.base, self._segment.end
        onward = after_damage(self._batches, self._at, base, end, self._index, self._until)
        behind = None if onward is None else self._batches.header(onward)
        self._report(why, self._until if onward is None else onward, behind is None or behind.base_offset > self._next)
        self._at = self._until if onward is None else onward

    @cached_property
    def _index(self) -> list[int]:
        positions: list[int] = load_index(self._fs, self._segment).positions.tolist()
        return positions

    # Losses

    def _report(self, why: str, onward: int, is_loss: bool) -> None:
        """Report damage. `is_loss`: whether the damaged bytes may have held offsets that the query reads."""
        place = f"position {self._at} ({self._tp}, from offset {self._next} on)"
        damage = f"{self._segment.path} is damaged at {place}: {why}."
        if is_loss and self._options.fail_on_data_loss:
            raise CorruptLogError(
                f'{damage} To skip what is damaged, set the source option "failOnDataLoss" to "false"; another replica '
                "of the partition may be whole."
            )
        logger.warning("%s %d bytes are skipped, up to position %d.", damage, onward - self._at, onward)

    def _check_reached(self) -> None:
        """Report the missing offsets of a last segment that a broker has truncated since it was planned."""
        if self._segment.is_tail and self._next < self._piece.end and self._at >= self._until < self._piece.until:
            reporter(self._options.fail_on_data_loss)(
                Condition.COULD_NOT_READ,
                f"Could not read offsets [{self._next}, {self._piece.end}) of {self._tp}: {self._segment.path} was "
                "truncated after the query was planned.",
            )

    # Transactions

    def _aborted(self) -> list[Aborted]:
        """Find the aborted transactions that have records in the piece."""
        walked = walk(self._fs, self._onward(), self._piece.start, self._at)
        with closing(walked):
            return aborted_before(walked, self._piece.start, self._piece.end, self._indexed)

    def _onward(self) -> Iterator[Segment]:
        """Yield this segment and, on demand, those behind it."""
        yield replace(self._segment, size=self._batches.end)
        for segment in inspect(self._fs, self._tp, self._directory, 0).segments:
            if segment.base > self._segment.base:
                yield segment

    def _indexed(self) -> list[Aborted]:
        """Yield the entries of the transaction indexes of this segment and later ones."""
        found: list[Aborted] = []
        for entry in self._fs.entries(self._directory):
            if entry.name.endswith(TXN_INDEX) and entry.name >= segment_name(self._segment.base, ""):
                try:
                    rows = usable_aborted(read_small(self._fs, entry.path))
                    found += [Aborted(row.producer_id, row.first_offset, row.last_offset) for row in rows]
                except (FileNotFoundError, ValueError) as error:
                    logger.warning("%s is not used: %s", entry.path, error)
        return found

    @property
    def _directory(self) -> str:
        return self._segment.path.rpartition("/")[0]


def _touching(aborted: list[Aborted], records: memoryview, behind: int) -> list[tuple[int, int]]:
    """Select the aborted transactions that have records or their marker in these batches."""
    if not aborted:
        return []
    first = int.from_bytes(records[:8], "big", signed=True)
    return [(each.producer_id, each.first) for each in aborted if each.first < behind and each.last >= first]
