"""Recovery of one log: what of its directory is trusted, what is checked, and what is repaired.

After a clean stop as little as possible is read. The segments are the `.log` files in the directory. The log end
offset comes from the last entry of the offset index and the few batch headers after it, and the producer state from the
newest snapshot.

After an unclean stop every segment from the recovery point on is read whole (`segment_recovery`). Each batch must be
whole, its CRC must be right, and its offsets must follow those before it. Indexes and producer state are rebuilt on the
way. A segment is cut at the first bad batch. A segment that does not begin at the offset where the one before it ended
is removed together with all later ones. A segment whose offsets its indexes cannot hold is split. What remains is a
valid prefix of the log. Segments before the recovery point were flushed with their indexes before the checkpoint was
written, so their indexes are checked on first use only. Few segments have a transaction index. It is checked at once,
as in Kafka, because a rebuild reads the log up to there.

`directory_scan` deals with files that compactions and deletions left.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial

from broker.log.files.file_ops import NO_SPACE
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.log_config import LogConfig
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.recovery.directory_scan import list_segments
from broker.log.recovery.producer_recall import recall
from broker.log.recovery.producer_replay import replay
from broker.log.recovery.segment_recovery import OffsetOverflowError, give_back_reserved, recover_segment
from broker.log.recovery.transaction_rebuild import mend_transaction_index
from broker.log.resources import LogResources
from broker.log.segment.segment import Segment
from broker.log.segment.splitting import parts_of, write_parts
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.storage import names

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadedLog:
    """Hold what was found in a partition's directory."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: ProducerStateManager
    epochs: LeaderEpochCache


def load(
    directory: str,
    config: LogConfig,
    *,
    clean: bool,
    log_start_offset: int,
    recovery_point: int,
    now_ms: int,
    resources: LogResources,
) -> LoadedLog:
    """Open the log in `directory`, which exists.

    Args:
        clean: the last stop was clean; otherwise everything from `recovery_point` on is checked.
        log_start_offset: from the checkpoint. The log starts at the first segment's base offset if that is later.

    Raises:
        OSError: the directory or a file cannot be read or repaired.
    """
    ops = resources.ops
    bases, snapshots, with_aborted = list_segments(directory, ops)
    segments = [Segment(directory, base, size, config, now_ms, resources) for base, size in sorted(bases.items())]
    epochs = LeaderEpochCache(os.path.join(directory, names.LEADER_EPOCH_CHECKPOINT), ops)
    producers = ProducerStateManager(directory, config.producer_id_expiration_ms, snapshots, ops)
    loader = _Loader(directory, config, segments, producers, epochs, now_ms, resources)
    loaded = loader.load(clean, log_start_offset, recovery_point)
    for segment in loaded.segments:
        if segment.base_offset in with_aborted:
            mend_transaction_index(loaded.segments, segment, ops)
    return loaded


def load_new(
    directory: str,
    config: LogConfig,
    *,
    log_start_offset: int,
    recovery_point: int,
    now_ms: int,
    resources: LogResources,
) -> LoadedLog:
    """Do the work of `load` for a directory that was made just now and is empty.

    Raises:
        OSError: the first segment cannot be made.
    """
    ops = resources.ops
    epochs = LeaderEpochCache(os.path.join(directory, names.LEADER_EPOCH_CHECKPOINT), ops)
    producers = ProducerStateManager(directory, config.producer_id_expiration_ms, (), ops)
    segments = [Segment.create(directory, log_start_offset, config, now_ms, resources)]
    producers.start_at(log_start_offset)
    return LoadedLog(
        segments, log_start_offset, log_start_offset, min(recovery_point, log_start_offset), producers, epochs
    )


class _Loader:
    def __init__(
        self,
        directory: str,
        config: LogConfig,
        segments: list[Segment],
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        now_ms: int,
        resources: LogResources,
    ) -> None:
        self.directory = directory
        self.config = config
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.now_ms = now_ms
        self.resources = resources
        self.ops = resources.ops
        self.cut_short: set[int] = set()
        self.unsplittable: set[int] = set()

    def load(self, clean: bool, log_start: int, recovery_point: int) -> LoadedLog:
        segments = self.segments
        self.producers.remove_stray_snapshots([segment.base_offset for segment in segments])
        if clean:
            end = self._end_after_clean_stop(log_start)
        else:
            trusted = max(recovery_point, log_start)
            first = max((i for i, s in enumerate(segments) if s.base_offset <= trusted), default=0)
            if first:
                give_back_reserved(segments[first - 1])
            end = self._recover_from(first, log_start)
        if segments and end < log_start:
            logger.warning(
                "%s: removing all segments, since the log end offset %d is before the log start offset %d",
                self.directory, end, log_start,
            )  # fmt: skip
            self._remove_from(0)
            self.epochs.clear()
        if not segments:
            segments.append(Segment.create(self.directory, log_start, self.config, self.now_ms, self.resources))
            self.producers.start_at(log_start)
            end = log_start
        log_start = max(log_start, segments[0].base_offset)
        self.epochs.truncate_from_end(end, write=False)
        self.epochs.truncate_from_start(log_start)
        self.producers.on_log_start_offset(log_start)
        return LoadedLog(
            segments, log_start, end, end if clean else min(recovery_point, end), self.producers, self.epochs
        )

    def _end_after_clean_stop(self, log_start: int) -> int:
        if not self.segments:
            return log_start
        active = self.segments[-1]
        try:
            end = active.next_offset()
        except RecordsError as error:
            logger.warning("%s is damaged in spite of a clean shutdown: %s", active, error)
            return self._recover_from(len(self.segments) - 1, log_start)
        self.producers.reload(max(log_start, self.segments[0].base_offset), end, self.now_ms)
        recall(self.segments, self.producers, self.now_ms)
        replay(self.segments, self.producers, end)
        active.release()
        return end

    def _recover_from(self, first: int, log_start: int) -> int:
        while True:
            try:
                return self._recover_once(first, log_start)
            except OffsetOverflowError as error:
                first = self.segments.index(error.segment)
                self._split(first)

    def _split(self, at: int) -> None:
        """Replace a segment, some offsets of which its indexes cannot hold, by several; see `splitting`.

        A crash leaves either the old segment or the new ones; see `directory_scan`.
        """
        segment = self.segments[at]
        following = self.segments[at + 1].base_offset if at + 1 < len(self.segments) else None
        try:
            parts = parts_of(segment, to_damage=True)
            if following is not None and parts[-1].base_offset >= following:
                raise CorruptRecordError(f"offset {parts[-1].base_offset} lies in a later segment")
        except RecordsError as error:
            logger.warning("%s is not split: %s", segment.path(names.LOG), error)
            self.unsplittable.add(segment.base_offset)
            return
        logger.info("Splitting %s into %d segments: its offsets span too much", segment.path(names.LOG), len(parts))
        # The recovery rebuilds the transaction indexes.
        new = write_parts(segment, parts, (), self.config, self.now_ms, self.resources)
        for each in reversed(new):
            each.rename_to(names.SWAP)
        self.ops.fsync_dir(self.directory)
        segment.remove()
        for each in new:
            each.rename_to("")
            each.config = self.config
        self.ops.fsync_dir(self.directory)
        self.segments[at : at + 1] = new

    def _recover_once(self, first: int, log_start: int) -> int:
        segments = self.segments
        if not segments:
            return log_start
        start = segments[first].base_offset
        self.producers.reload(max(log_start, segments[0].base_offset), start, self.now_ms)
        recall(segments, self.producers, self.now_ms)
        replay(segments, self.producers, start)
        end = start
        at = first
        while at < len(segments):
            segment = segments[at]
            if at > first and self._breaks_off(segments[at - 1], segment, end):
                self._end_before(at, end)
                break
            if segment.base_offset < end:
                logger.warning("Removing %s, which is empty and within another", segment.path(names.LOG))
                self._remove(segment)
                continue
            self.producers.end_offset = segment.base_offset
            self._take_snapshot(sync=False)
            size = segment.size
            may_split = self._has_gaps and segment.base_offset not in self.unsplittable
            end = recover_segment(
                segment, self.producers, self.epochs, partial(self._before_cut, at), may_split=may_split
            )
            if segment.size < size:
                logger.warning(
                    "%s: the last %d bytes, from offset %d on, were no valid record batches and were cut off. What is "
                    "lost had not been flushed (see flush.messages), or the disk has damaged it",
                    segment.path(names.LOG), size - segment.size, end,
                )  # fmt: skip
            at += 1
        self._take_snapshot(sync=True)
        for segment in segments[first:]:
            segment.close_idle()
        return end

    def _take_snapshot(self, *, sync: bool) -> None:
        """Write a producer snapshot, unless the disk is full: then the next start rebuilds the state again."""
        try:
            self.producers.take_snapshot(sync=sync)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            logger.warning("No producer snapshot of %s at %d: %s", self.directory, self.producers.end_offset, error)

    def _breaks_off(self, before: Segment, segment: Segment, end: int) -> bool:
        """Return whether `segment` does not begin where `before` ended, at `end`.

        Then records between them, or the names of whole segments, were lost. Zeros behind the last batch are no loss,
        and neither is a gap that compaction made, or a mirror that keeps the offsets of its source. In such a log a
        segment that lost its end without a damaged batch looks the same. The gap stays then, as with Apache Kafka:
        offsets are not given twice, and nothing that was forced is removed for it.
        """
        if segment.base_offset < end:
            return segment.size > 0
        gap = segment.base_offset > end
        return gap and (before.base_offset in self.cut_short or not self._has_gaps)

    @property
    def _has_gaps(self) -> bool:
        """True if offsets may be missing in the log although nothing was lost."""
        # What cannot be read of the configuration may be that the log is compacted.
        return self.config.compact or bool(self.config.mirror_source) or self.config.is_held

    def _before_cut(self, at: int, end: int) -> None:
        """Remove the segments after one that is about to be cut at `end`, if they do not begin there.

        They are removed before the cut, so that a crash in between leaves the damage to be found again. After the cut,
        the gap could be mistaken for one that compaction made.
        """
        self.cut_short.add(self.segments[at].base_offset)
        if at + 1 < len(self.segments) and self._breaks_off(self.segments[at], self.segments[at + 1], end):
            self._end_before(at + 1, end)

    def _end_before(self, at: int, end: int) -> None:
        logger.warning(
            "%s ends at offset %d, where records are missing; removing the %d segments after it (%s and on)",
            self.directory, end, len(self.segments) - at, self.segments[at].path(names.LOG),
        )  # fmt: skip
        self._remove_from(at)

    def _remove_from(self, first: int) -> None:
        # From the end, so that a failure or a crash in between leaves a log without a gap.
        for segment in self.segments[: first - 1 if first else None : -1]:
            self._remove(segment)
        # Forced at once: they must not come back behind what is appended next.
        self.ops.fsync_dir(self.directory)

    def _remove(self, segment: Segment) -> None:
        if segment.base_offset in self.producers.snapshot_offsets:
            self.producers.remove_snapshot(segment.base_offset)
        segment.remove()
        self.segments.remove(segment)
