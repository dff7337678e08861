"""Keep how far a worker is, for its metrics and for the translation of groups' offsets.

The worker's thread writes; those of metrics and checkpoints read. All of it is under one lock, and copies go out.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.batching.batches import MirroredBatch
from kafkalog.mirror.copying.positions.translation import OffsetMap, continued
from kafkalog.mirror.copying.refused_batches import RefusedBatches
from kafkalog.mirror.copying.task import Committed
from kafkalog.mirror.internal_topics.runs import Run
from kafkalog.mirror.internal_topics.topic_ids import are_other_topics


@dataclass
class PartitionProgress:
    """One partition of the source. Counts begin when the process gets it, and include what is not committed yet."""

    next_offset: int | None = None
    """The next offset to read in the source, as committed in the target; None before the first commit."""
    end: int = -1
    """The last stable offset of the source when it was last fetched, -1 before."""
    records: int = 0
    bytes: int = 0
    decoded: int = 0
    """Batches that had to be written anew."""
    committed_at: float = 0.0
    """The time of its last commit (`time.time`); 0 for never."""
    held: bool = False
    """True while its next batch cannot be read in the source, or is refused by the target."""
    offsets: OffsetMap = field(default_factory=OffsetMap, repr=False)

    @property
    def lag(self) -> int | None:
        """The number of offsets of the source that are not in the target yet; None where it is unknown."""
        return None if self.next_offset is None or self.end < 0 else max(self.end - self.next_offset, 0)


class Progress:
    """The partitions that a worker has at present."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[TopicPartition, PartitionProgress] = {}
        self._maps: dict[TopicPartition, OffsetMap] = {}
        """Of each partition that the process has or had. A worker that begins again goes on with them."""
        self._groups: dict[tuple[str, TopicPartition], tuple[int, int | None]] = {}
        self.assignments = 0
        """The number of assignments, also of the same partitions again: others may have had them meanwhile."""
        self.restarts = 0
        """The number of times that a worker was replaced because something failed."""
        self.has_begun = False
        """True if a worker of the process has had partitions; for the workers alone, as the next one."""
        self.late_starts: dict[TopicPartition, int] = {}
        """The starts of partitions that begin at their end, as it was when a worker first had them."""
        self.late_without_start: set[TopicPartition] = set()
        """Partitions that begin at their end, and had no leader that could tell it."""
        self.refused = RefusedBatches()
        """The batches that the target refuses; for the workers alone."""
        self._topic_ids: dict[str, UUID] = {}

    def topics_are(self, ids: Mapping[str, UUID]) -> None:
        """Note the ids of topics; forget late starts in others of their names, which were deleted."""
        before = self._topic_ids
        other = {name for name, now in ids.items() if are_other_topics(before.get(name), now)}
        self.late_starts = {tp: start for tp, start in self.late_starts.items() if tp.topic not in other}
        self.late_without_start = {tp for tp in self.late_without_start if tp.topic not in other}
        self.refused.forget(other)
        self._topic_ids = before | dict(ids)

    def assigned(
        self,
        partitions: Collection[TopicPartition],
        positions: Mapping[TopicPartition, int],
        runs: Iterable[tuple[TopicPartition, Run]] = (),
    ) -> None:
        """Begin with these partitions and what is stored of their offsets; give up all others."""
        stored: dict[TopicPartition, list[Run]] = defaultdict(list)
        for tp, run in runs:
            stored[tp].append(run)
        with self._lock:
            self._maps |= {tp: continued(self._maps.get(tp), stored[tp]) for tp in partitions}
            self._partitions = {tp: PartitionProgress(positions.get(tp), offsets=self._maps[tp]) for tp in partitions}
            self.assignments += 1

    def count(self, partition: TopicPartition, batch: MirroredBatch) -> None:
        """Count a batch that is being sent."""
        with self._lock:
            each = self._partitions[partition]
            each.records += sum(count for _, count in batch.offsets)
            each.bytes += len(batch.data)
            each.decoded += batch.decoded

    def fetched(self, partition: TopicPartition, records: FetchedRecords) -> int:
        """Note and return where the source's log ends; -1 where the broker does not report it."""
        with self._lock:
            each = self._partitions[partition]
            each.end = records.last_stable_offset if records.last_stable_offset >= 0 else records.high_watermark
            return each.end

    def held(self, partition: TopicPartition, *, is_held: bool) -> None:
        """Note whether the next batch of a partition cannot be mirrored now."""
        with self._lock:
            self._partitions[partition].held = is_held

    def committed(self, partition: TopicPartition, done: Committed) -> None:
        """Note what a transaction has committed."""
        with self._lock:
            each = self._partitions[partition]
            each.next_offset = done.next_offset
            each.committed_at = time.time()
            for run in done.runs:
                each.offsets.add(run)

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the offset of the target for a position in the source; None where that is unknown here."""
        with self._lock:
            each = self._partitions.get(partition)
            return None if each is None else each.offsets.translate(offset)

    def translate_back(self, partition: TopicPartition, offset: int) -> int | None:
        """Return the offset of the source's `partition` for a position in the target; None where it is unknown here."""
        with self._lock:
            each = self._partitions.get(partition)
            return None if each is None else each.offsets.translate_back(offset)

    def groups_are(self, groups: Mapping[tuple[str, TopicPartition], tuple[int, int | None]]) -> None:
        """Note the positions of groups in the source, and in the target where they could be translated."""
        with self._lock:
            self._groups = dict(groups)

    def groups(self) -> dict[tuple[str, TopicPartition], tuple[int, int | None]]:
        """Return what `groups_are` has noted, for the partitions that this process still has."""
        with self._lock:
            return {place: at for place, at in self._groups.items() if place[1] in self._partitions}

    def first_topics(self) -> list[str]:
        """Return the topics whose partition 0 this process has: it does for them what one process must do."""
        with self._lock:
            return sorted(tp.topic for tp in self._partitions if tp.partition == 0)

    def partitions(self) -> dict[TopicPartition, PartitionProgress]:
        """Return copies of the partitions' states, which share their `offsets`."""
        with self._lock:
            return {tp: PartitionProgress(**vars(each)) for tp, each in self._partitions.items()}
