"""The log of one partition: an append-only sequence of record batches, in segments.

Offsets from the log start offset up to, not including, the log end offset are there to be read. The high
watermark, set by the replica that owns this log, bounds what consumers see, retention and record deletion;
the recovery point is how far the log is known to be on the device.

A log belongs to one thread, the broker's loop. ``flush`` alone may run on a worker's thread beside it. The
list of segments is replaced, never changed, so what a flush or a reader holds stays whole.

Failures: a write that failed is undone, and the append answers KAFKA_STORAGE_ERROR; the next may succeed.
When it cannot be undone, or an fsync failed, nobody knows what the file holds: the log goes offline, appends
fail from then on, and reads of what is there go on.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left, bisect_right
from pathlib import Path
from threading import Lock
from uuid import UUID

from broker.log import recovery
from broker.log.checkpoints import read_partition_metadata, sync_partition_metadata, write_partition_metadata
from broker.log.config import LogConfig
from broker.log.file_ops import OS, FileOps
from broker.log.index_file import NoSpaceError
from broker.log.log_remover import LogRemover
from broker.log.moving.plan import Extent
from broker.log.segment import Segment
from kafkalog.protocol.errors import InconsistentTopicIdError, KafkaStorageError
from kafkalog.storage import names


class PartitionLog(LogRemover):
    """See the module. Made by :meth:`open`.

    Attributes:
        dir: directory of the partition.
        log_start_offset: first offset that may be read.
        log_end_offset: offset the next record gets.
        recovery_point: everything before it is on the device.
        epochs: leader epochs and where they began.
        producers: state of the idempotent and transactional producers.
        offline: why the log takes no more appends, or None.
    """

    __slots__ = ()

    @classmethod
    def open(
        cls,
        directory: str | Path,
        config: LogConfig,
        *,
        clean: bool,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        now_ms: int,
        topic_id: UUID | None = None,
        ops: FileOps = OS,
    ) -> PartitionLog:
        """Open the log in ``directory``, recovering it unless the last stop was ``clean``; made if it is not
        there.

        Args:
            log_start_offset: from the checkpoint, 0 if it has none.
            recovery_point: from the checkpoint, 0 if it has none.
            topic_id: recorded in the directory if it has none yet.

        Raises:
            OSError: the directory cannot be read, repaired or made.
            InconsistentTopicIdError: the directory belongs to another incarnation of the topic.
        """
        path = Path(directory)
        created = not path.exists()
        if created:
            ops.mkdir(str(path))
        if created:
            loaded = recovery.load_new(
                str(path),
                config,
                log_start_offset=log_start_offset,
                recovery_point=recovery_point,
                now_ms=now_ms,
                ops=ops,
            )
        else:
            loaded = recovery.load(
                str(path),
                config,
                clean=clean,
                log_start_offset=log_start_offset,
                recovery_point=recovery_point,
                now_ms=now_ms,
                ops=ops,
            )
        known = None if created else read_partition_metadata(str(path))
        if known is not None and topic_id is not None and known != topic_id:
            raise InconsistentTopicIdError(f"{path} belongs to topic id {known}, not {topic_id}")
        if known is None and topic_id is not None:
            write_partition_metadata(str(path), topic_id, ops)
        log = cls(path, config, loaded, known or topic_id, ops)
        # After a crash of the process alone there may be names, and trimmed ends, that never came to the device.
        log._dir_unsynced = created or not clean
        log._flushed_rolls = 0 if created or clean else -1
        return log

    # -- flushing and closing --------------------------------------------------------------------------------

    @property
    def unflushed_records(self) -> int:
        """Offsets that are not known to be on the device."""
        return self.log_end_offset - self.recovery_point

    @property
    def names_unsynced(self) -> bool:
        """Whether files were made, renamed or removed that a power failure may undo."""
        return self._dir_unsynced

    def flush_due(self, now_ms: int) -> int | None:
        """Up to which offset a flush is due by ``flush.messages``, ``flush.ms`` or a roll; None when none is."""
        unflushed = self.log_end_offset - self.recovery_point
        config = self._config
        if unflushed >= config.flush_messages:
            return self.log_end_offset
        if unflushed and now_ms - self._unflushed_since_ms >= config.flush_ms:
            return self.log_end_offset
        return self._active.base_offset if self._rolls > max(self._flushed_rolls, 0) else None

    def needs_flush(self, now_ms: int) -> bool:
        """Whether a flush is due."""
        return self.offline is None and self.flush_due(now_ms) is not None

    def flush(self, upto: int | None = None) -> None:
        """Force everything before ``upto`` (default: the log end offset) to the device, then move the
        recovery point.

        May run on a worker's thread. The log end offset is taken at the start; records appended meanwhile may
        or may not be on the device afterwards.

        Raises:
            KafkaStorageError: it could not be forced. The log is offline from then on: what the kernel kept
                of the data is unknown, and a second try would not tell. But not when there was no room for
                index entries.
        """
        # One at a time: a second one would find the directory's flag taken, and vouch for names that are not safe yet.
        with self._flushing:
            if self.offline is not None:
                raise KafkaStorageError(f"{self._label} is offline: {self.offline}")
            self._flush(upto)

    def _flush(self, upto: int | None) -> None:
        # In this order: what the loop's thread does in between is then either covered here or noticed.
        truncations, since = self._truncations, self._last_append_ms
        rolls = self._rolls
        rolled = rolls != self._flushed_rolls
        end = self.log_end_offset if upto is None else min(upto, self.log_end_offset)
        segments, start = self._segments, self.recovery_point
        if end <= start and not self._dir_unsynced and not rolled:
            return
        # After a roll the segment that was left once more: its indexes have been closed and trimmed since.
        find = bisect_left if rolled else bisect_right
        try:
            for segment in segments[max(find([s.base_offset for s in segments], start) - 1, 0) :]:
                if segment.base_offset < end:
                    self._flush_segment(segment, truncations)
            self.producers.sync_snapshots()
            if self._dir_unsynced:
                self._dir_unsynced = False
                sync_partition_metadata(str(self.dir), self._ops)
                self._ops.fsync_dir(str(self.dir))
                self._ops.fsync_dir(str(self.dir.parent))
        except NoSpaceError as error:
            # The records are safe, but not what is to be found by: the recovery point stays until there is room.
            self._complain(f"Cannot flush {self.dir}: {error}")
            raise KafkaStorageError(f"Cannot flush {self._label}: {error}") from error
        except OSError as error:
            if self._leaving and isinstance(error, FileNotFoundError):
                raise KafkaStorageError(f"{self._label} was deleted while it was flushed") from error
            self._go_offline(f"cannot flush it: {error}")
            raise KafkaStorageError(f"Cannot flush {self._label}: {error}") from error
        self._flushed_rolls = rolls
        with self._recovery_lock:
            if truncations == self._truncations:
                self._unflushed_since_ms = since
                self.recovery_point = max(self.recovery_point, end)

    def _flush_segment(self, segment: Segment, truncations: int) -> None:
        try:
            segment.flush()
        except FileNotFoundError:
            # Deleted or truncated by the loop's thread meanwhile: nothing of it needs to be anywhere.
            if segment in self._segments and truncations == self._truncations:
                raise

    def close(self) -> None:
        """Flush everything, leave a producer snapshot, trim the indexes. The log is not used afterwards.

        Raises:
            KafkaStorageError: something could not be forced to the device, or the log was offline: this was
                no clean stop.
        """
        try:
            if self.offline is None:
                if not self.epochs.is_stored and self.epochs.covers(self.log_end_offset):
                    self.epochs.flush()
                self.producers.take_snapshot(sync=True)
                if self._active.finish():
                    # The records may be on the device, but the indexes have just been closed and trimmed.
                    self._rolls += 1
                self.flush()
        except OSError as error:
            self._go_offline(f"cannot close it: {error}")
        finally:
            for segment in self._segments:
                segment.release()
        if self.offline is not None:
            raise KafkaStorageError(f"{self._label} was not closed cleanly: {self.offline}")

    def rename_for_delete(self, kind: str = names.DELETE_DIR, *, sync: bool = True) -> Path:
        """Give the directory a name that marks it for removal, and close the log to appends; returns the new
        path.

        With ``kind`` ``names.STRAY_DIR`` the name marks it as a log that nobody knows, and it is kept. Without ``sync``
        the new name is safe once the caller has forced the parent directory to the device.

        Raises:
            KafkaStorageError: the disk failed.
        """
        target = self.dir.parent / names.delete_dir(self.topic, self.partition, kind)
        # Before the files have other names: a flush beside this must not take their absence for a failed disk.
        self._leaving = True
        self._move_segments(target)
        try:
            self._ops.rename(str(self.dir), str(target))
        except OSError as error:
            self._leaving = False
            self._move_segments(self.dir)
            raise self._storage_error("delete", error) from error
        self.dir = target
        try:
            if sync:
                self._ops.fsync_dir(str(target.parent))
        except OSError as error:
            # What is appended from here on would go with the directory.
            self._go_offline(f"cannot force its new name to the device: {error}")
            raise KafkaStorageError(f"Cannot delete {self._label}: {error}") from error
        self.offline = "it was deleted"
        self._deletions.clear()
        for segment in self._segments:
            segment.release()
        return target

    def files(self) -> dict[str, Extent]:
        """The files that make the log, by name, as they are now; of each segment the ``.log`` file last."""
        found = dict(extent for segment in self._segments for extent in segment.extents())
        for offset in self.producers.snapshot_offsets:
            found[names.segment_name(offset, names.SNAPSHOT)] = Extent(None, ())
        # What a truncation took away may have been written again, with the same length.
        return {name: extent._replace(stamp=(extent.stamp, self._truncations)) for name, extent in found.items()}

    @property
    def flushes(self) -> Lock:
        """Held by whoever flushes; a worker that holds it keeps the recovery point where it is."""
        return self._flushing

    def relocate(self, future: Path, epochs: list[tuple[int, int]]) -> Path:
        """Be what lies in ``future``, a directory of another log directory, from now on; returns the old one's name.

        ``future`` has copies of `files`, on the device up to the recovery point, and these leader epochs. The caller
        holds `flushes`, and forces both parent directories to the device afterwards.

        Raises:
            KafkaStorageError: the old directory could not be renamed.
            OSError: the new one could not be; the log is where it was, or offline when that is not so.
        """
        source = self.dir
        target = future.parent / source.name
        doomed = source.parent / names.delete_dir(self.topic, self.partition)
        # The old one first: killed in between, there is none, and the next start takes the copy.
        try:
            self._ops.rename(str(source), str(doomed))
        except OSError as error:
            raise self._storage_error("move", error) from error
        try:
            self._ops.rename(str(future), str(target))
        except OSError:
            try:
                self._ops.rename(str(doomed), str(source))
            except OSError as error:
                self._go_offline(f"cannot give {doomed} its name back: {error}")
            raise
        self.dir, self.log_dir = target, target.parent
        for segment in self._segments:
            segment.relocate(str(target))
        self.epochs.relocate(str(target / names.LEADER_EPOCH_CHECKPOINT), epochs)
        self.producers.relocate(str(target))
        # They went with the old directory.
        self._deletions.clear()
        self._dir_unsynced = True
        return doomed

    def _move_segments(self, directory: Path) -> None:
        for segment in self._segments:
            segment.move(str(directory))

    def delete(self) -> None:
        """Remove the log and its directory, at once.

        Raises:
            KafkaStorageError: the disk failed.
        """
        target = self.rename_for_delete()
        try:
            shutil.rmtree(target)
        except OSError as error:
            raise KafkaStorageError(f"Cannot delete {target}: {error}") from error
