"""What a consumer is to read, and where it stands in each partition. Nothing here sends or waits.

A partition that was just assigned has no position. It gets one from what its group has committed, by `seek`, or from
``auto.offset.reset`` by a timestamp, in this order. Before anything is fetched at a position whose leader epoch is
known the leader is asked whether its log still has what comes before it (KIP-320), and again whenever there is a new
leader.

Two threads look at the states: the application's, which takes what was fetched, and the fetcher's, which alone adds
what it fetched and goes back where a log was truncated. ``version`` changes whenever what was fetched is thrown away:
by it both can tell, under the lock, that what they have got in hand is of another past.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from enum import Enum, auto

from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.consumer.fetcher.fetch_position import NO_EPOCH, FetchPosition
from kafkalog.client.consumer.topic_filter import TopicFilter
from kafkalog.client.types import OffsetAndMetadata, TopicPartition

CHUNKS_AHEAD = 2
"""Fetches that are kept of a partition: one is being handed out while the next one waits."""


class PartitionState:
    """One partition that is assigned."""

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.version = 0
        self.position: FetchPosition | None = None
        """Where the next record that is handed out is looked for."""
        self.fetched: FetchPosition | None = None
        """Where the next fetch begins."""
        self.reset: int | None = None
        """The timestamp of the position, where that is still to be looked up."""
        self.committed_asked = False
        """Whether the committed offset is being looked up."""
        self.leader_epoch = NO_EPOCH
        """Of the leader at which the position was validated last."""
        self.replica: tuple[int, float] | None = None
        """The follower that the leader would have fetches sent to, by its id, and until when (KIP-392)."""
        self.paused = False
        self.held = False
        """Whether it is about to be revoked: nothing is handed out any more."""
        self.completed_fetches: deque[CompletedFetch] = deque()
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.error: Exception | None = None
        self.retry_at = 0.0

    def move(self, position: FetchPosition) -> None:
        """Go on at ``position``."""
        self._change()
        self.position = self.fetched = position
        self.reset = None

    def look_up(self, timestamp: int) -> None:
        """Go on at the offset of a timestamp, which the fetcher finds."""
        self._change()
        self.position = self.fetched = None
        self.reset = timestamp

    def refetch(self) -> None:
        """Throw away what was fetched ahead of the position."""
        self.version += 1
        self.completed_fetches.clear()
        self.fetched = self.position

    def _change(self) -> None:
        self.version += 1
        self.completed_fetches.clear()
        self.error = None
        self.retry_at = 0.0
        self.leader_epoch = NO_EPOCH

    @property
    def lost(self) -> bool:
        """Whether nobody has said yet where to begin."""
        return self.position is None and self.reset is None

    def fetchable(self, now: float) -> bool:
        """Whether there is something to ask a leader for."""
        return (
            not (self.paused or self.held)
            and self.fetched is not None
            and self.error is None
            and len(self.completed_fetches) < CHUNKS_AHEAD
            and not (self.completed_fetches and self.completed_fetches[-1].failure)
            and self.retry_at <= now
        )

    def ready(self) -> bool:
        """Whether something can be handed out."""
        return bool(self.completed_fetches) and not (self.paused or self.held)

    @property
    def lag(self) -> int | None:
        """Records between the position and the high watermark; None where one of them is unknown."""
        if self.position is None or self.high_watermark < 0:
            return None
        return max(self.high_watermark - self.position.offset, 0)


class Kind(Enum):
    """How partitions come to be assigned."""

    NONE = auto()
    TOPICS = auto()
    PATTERN = auto()
    MANUAL = auto()


class SubscriptionState:
    """What is wanted, and what is assigned."""

    def __init__(self) -> None:
        self.kind = Kind.NONE
        self.topics: frozenset[str] = frozenset()
        """What the member tells the group that it wants."""
        self.filter: TopicFilter | None = None
        self.matched = False
        """Whether topics have been looked through for those that the filter allows."""
        self.regex: str | None = None
        """What the coordinator matches with topics; ``topics`` are then those of the assignment."""
        self.group_topics: frozenset[str] = frozenset()
        """What all members want, where this one leads the group."""
        self.partitions: dict[TopicPartition, PartitionState] = {}

    @property
    def grouped(self) -> bool:
        """Whether a group assigns the partitions."""
        return self.kind in (Kind.TOPICS, Kind.PATTERN)

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self.partitions)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics."""
        self._become(Kind.TOPICS)
        self.topics, self.filter, self.regex = frozenset(topics), None, None

    def subscribe_pattern(self, wanted: TopicFilter) -> None:
        """Want the topics that a filter allows, among those there are: `found` says which they are."""
        self._become(Kind.PATTERN)
        self.filter, self.regex, self.matched = wanted, None, False

    def subscribe_regex(self, regex: str) -> None:
        """Want the topics that the coordinator finds to match."""
        self._become(Kind.PATTERN)
        self.filter, self.regex = None, regex
        self.topics = frozenset()

    def found(self, topics: Iterable[str]) -> bool:
        """These are the topics that there are; whether that changes what is wanted."""
        assert self.filter is not None
        self.matched = True
        before, self.topics = self.topics, self.filter.select(topics)
        return before != self.topics

    def _become(self, kind: Kind) -> None:
        if self.kind is not Kind.NONE and (self.kind is Kind.MANUAL) is not (kind is Kind.MANUAL):
            raise ValueError("topics, a pattern and assigned partitions exclude each other: unsubscribe first")
        if self.kind is not kind:
            self.topics = frozenset()
        self.kind = kind

    def assign_manually(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions; those that were assigned before keep their positions."""
        self._become(Kind.MANUAL)
        self.assign(partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these partitions and no others; those that were assigned before keep their states."""
        before = self.partitions
        self.partitions = {tp: before.get(tp) or PartitionState(tp) for tp in partitions}

    def unsubscribe(self) -> None:
        """Want and have nothing."""
        self.kind = Kind.NONE
        self.topics = self.group_topics = frozenset()
        self.filter = self.regex = None
        self.partitions = {}

    def wants(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment is of topics that are wanted."""
        return self.filter is not None or all(tp.topic in self.topics for tp in partitions)

    def state(self, tp: TopicPartition) -> PartitionState:
        """The state of an assigned partition; ValueError for another."""
        found = self.partitions.get(tp)
        if found is None:
            raise ValueError(f"partition {TopicPartition(*tp)} is not assigned; assigned are {sorted(self.partitions)}")
        return found

    def consumed(self) -> dict[TopicPartition, FetchPosition]:
        """The positions of all partitions that have one."""
        return {tp: state.position for tp, state in self.partitions.items() if state.position is not None}

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions as offsets to commit."""
        return {tp: OffsetAndMetadata(position.offset, position.epoch) for tp, position in self.consumed().items()}

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of these partitions, which are about to be given up."""
        for tp in partitions:
            if tp in self.partitions:
                self.partitions[tp].held = True

    def to_end_of_line(self, tp: TopicPartition) -> None:
        """Have the other partitions come first."""
        self.partitions[tp] = self.partitions.pop(tp)

    @property
    def watches_all(self) -> bool:
        """Whether the metadata of all topics is of interest."""
        return self.kind is Kind.PATTERN

    @property
    def watched(self) -> frozenset[str]:
        """The topics whose metadata is of interest, but for a pattern, which needs all."""
        return self.topics | self.group_topics | {tp.topic for tp in self.partitions}
