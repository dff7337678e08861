"""What a partition's log is made of, and the offsets that bound it; ``PartitionLog`` is built upon it.

The parts of a log, each upon the one before: its state (here), reading (``log_reader``), appending
(``log_appender``), taking records out (``log_remover``), and everything that opens, flushes and closes
(``partition_log``).
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from uuid import UUID

from broker.log.checkpoints import write_partition_metadata
from broker.log.config import LogConfig
from broker.log.file_ops import FileOps
from broker.log.recovery import LoadedLog
from broker.log.segment import Segment
from broker.log.stored_segment import SegmentWriteError
from kafkalog.protocol.errors import InconsistentTopicIdError, KafkaStorageError
from kafkalog.storage import names

logger = logging.getLogger(__name__)

COMPLAINT_SECONDS = 10.0
"""A partition's storage errors are told at most this often."""


class LogState:
    """Segments, offsets and producers of one partition. See ``PartitionLog`` for the attributes."""

    __slots__ = (
        "_active", "_bases", "_complained_at", "_complaints", "_config", "_deletions", "_dir_unsynced",
        "_flushed_rolls", "_flushing", "_high_watermark", "_label", "_last_append_ms", "_leaving", "_ops",
        "_recovery_lock", "_rolls", "_segments", "_truncations", "_unflushed_since_ms", "also_in", "being_cleaned",
        "being_moved", "cleaned_offset", "dir", "epochs", "fetch_message_conversions", "log_dir", "log_end_offset",
        "log_start_offset", "offline", "on_offline", "partition", "produce_message_conversions", "producers",
        "recovery_point", "topic", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        loaded: LoadedLog,
        topic_id: UUID | None,
        ops: FileOps,
    ) -> None:
        parsed = names.parse_partition_dir(directory.name)
        if parsed is None:
            raise ValueError(f"{directory} is not named topic-partition")
        self.dir = directory
        # Kept, for it is asked for of thousands of logs at once, and making a path takes a while.
        self.log_dir = directory.parent
        self.topic, self.partition = parsed
        self.topic_id = topic_id
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.offline: str | None = None
        # Told why, on whichever thread it happened, when the disk takes the log offline.
        self.on_offline: Callable[[Path, str], None] | None = None
        self._config = config
        self._ops = ops
        self._complained_at = -math.inf
        self._complaints = 0
        self._label = f"{self.topic}-{self.partition}"
        self._high_watermark = loaded.log_start_offset
        self._set_segments(loaded.segments)
        self._deletions: deque[tuple[int, list[str]]] = deque()
        self._dir_unsynced = False
        # Counted by the loop's thread, and up to where a flush has covered them (-1: those of a process that was killed
        # are not known to be): neither thread writes what the other does.
        self._rolls = 0
        self._flushed_rolls = 0
        self._flushing = Lock()
        self._leaving = False
        self._last_append_ms = 0
        self._unflushed_since_ms = 0
        # Held to change the recovery point: a flush on a worker must not raise it past a truncation beside it.
        self._recovery_lock = Lock()
        self._truncations = 0
        # Up to where it was compacted, None when it never was; and whether it is being compacted now, when nothing
        # else may take segments out.
        self.cleaned_offset: int | None = None
        self.being_cleaned = False
        # Whether it is being moved to another log directory, when nothing may be compacted; and the one whose
        # checkpoints tell of it, too, while nobody can say where a crash would leave it.
        self.being_moved = False
        self.also_in: Path | None = None
        # Records converted from one message format to another, since the log was opened.
        self.produce_message_conversions = 0
        self.fetch_message_conversions = 0

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self._label}, log_start_offset={self.log_start_offset}, "
            f"log_end_offset={self.log_end_offset}, high_watermark={self._high_watermark}, "
            f"segments={len(self._segments)})"
        )

    # -- what it is ------------------------------------------------------------------------------------------

    @property
    def config(self) -> LogConfig:
        """Settings in force; may be replaced while the log is open."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.producers.expiration_ms = config.producer_id_expiration_ms
        for segment in self._segments:
            segment.config = config

    @property
    def size(self) -> int:
        """Bytes of all segments' batches."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first; the list is not to be changed."""
        return self._segments

    @property
    def active_segment(self) -> Segment:
        """The segment that is appended to."""
        return self._active

    @property
    def truncations(self) -> int:
        """Changes with each truncation."""
        return self._truncations

    @property
    def latest_epoch(self) -> int:
        """Leader epoch of the newest batches, -1 when there is none."""
        return self.epochs.latest_epoch

    @property
    def high_watermark(self) -> int:
        """Offset below which records are replicated as far as asked for; kept between log start and log end."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.on_high_watermark(offset)

    @property
    def last_stable_offset(self) -> int:
        """Offset below which every transaction is decided; what read_committed consumers may see."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self._high_watermark
        return min(max(unstable, self.log_start_offset), self._high_watermark)

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Record the topic id, if the log has none.

        Raises:
            InconsistentTopicIdError: it has another.
            KafkaStorageError: the disk failed.
        """
        if self.topic_id is not None:
            if self.topic_id != topic_id:
                raise InconsistentTopicIdError(f"{self._label} belongs to topic id {self.topic_id}, not {topic_id}")
            return
        try:
            write_partition_metadata(str(self.dir), topic_id, self._ops)
        except OSError as error:
            raise self._storage_error("record the topic id of", error) from error
        self.topic_id = topic_id

    def _set_segments(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]

    def _storage_error(self, act: str, error: OSError) -> KafkaStorageError:
        if isinstance(error, SegmentWriteError):
            self._go_offline(f"cannot {act} it: {error}")
        else:
            self._complain(f"Cannot {act} {self.dir}: {error}")
        return KafkaStorageError(f"Cannot {act} {self._label}: {error}")

    def _complain(self, what: str) -> None:
        """Say it in the log, but not again and again: producers retry many times a second on a full disk."""
        now = time.monotonic()
        if now - self._complained_at < COMPLAINT_SECONDS:
            self._complaints += 1
            return
        more = f" (and {self._complaints} times more since the last such line)" if self._complaints else ""
        logger.error("%s%s", what, more)
        self._complained_at, self._complaints = now, 0

    def _go_offline(self, reason: str) -> None:
        if self.offline is None:
            self.offline = reason
            logger.error("%s goes offline: %s", self.dir, reason)
            if self.on_offline is not None:
                self.on_offline(self.dir.parent, f"{self._label}: {reason}")
