"""The subscription and the assigned partitions of a consumer, as state that neither sends nor waits.

A newly assigned partition has no position. Unless `seek` gives it one, it gets the group's committed offset; where
there is none, that of the timestamp for which `auto.offset.reset` stands. Before the first fetch at a position whose
leader epoch is known, and after every change of leaders, the leader is asked whether its log still has the records
before the position (KIP-320).

A position belongs to the topic with the id that the first fetch there has named. If a leader denies to have that topic,
and the metadata knows another one of its name, the topic was deleted and created again. Then `auto.offset.reset` says
where to go on, since the offsets of the new topic are others.

Two threads use the states. The application's thread takes fetched records. The fetcher's thread adds them, and moves
positions back where a log was truncated. `version` changes whenever fetched records are discarded: either thread
compares it, under the lock, to find out whether the records that it holds are out of date.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable
from enum import Enum, auto
from uuid import UUID

from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.consumer.fetcher.fetch_position import NO_EPOCH, FetchPosition
from kafkalog.client.consumer.topic_filter import SubscriptionPattern, TopicFilter
from kafkalog.client.metadata import Leader
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.schema import ZERO_UUID

FETCHES_AHEAD = 2
"""The number of fetches of a partition that are kept: while one is handed out, the next one waits."""


class PartitionState:
    """The state of an assigned partition.

    Attributes:
        position: The position of the next record to hand out.
        fetched: Where the next fetch begins.
        reset: The timestamp whose offset will be the position, until that offset is known.
        committed_asked: Whether the committed offset is being looked up.
        topic_id: The id of the topic in which the position is; zero before a fetch, and where topics have no ids.
        refused: Whether a leader has denied to have the topic of this id.
        leader_epoch: The epoch of the leader at which the position was last validated.
        replica: The id of the follower to which the leader wants fetches sent, and until when (KIP-392).
        leader: The leader that was asked last.
        failures: How many requests in a row to this leader have failed for a reason that may pass.
        held: Whether the partition will be revoked; no more of its records are handed out.
    """

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.version = 0
        self.position: FetchPosition | None = None
        self.fetched: FetchPosition | None = None
        self.reset: int | None = None
        self.committed_asked = False
        self.topic_id = ZERO_UUID
        self.refused = False
        self.leader_epoch = NO_EPOCH
        self.replica: tuple[int, float] | None = None
        self.paused = False
        self.held = False
        self.completed_fetches: deque[CompletedFetch] = deque()
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.error: Exception | None = None
        self.retry_at = 0.0
        self.leader: Leader | None = None
        self.failures = 0

    def move(self, position: FetchPosition, topic_id: UUID = ZERO_UUID) -> None:
        """Continue at `position`, of the topic with this id if it is given."""
        self._change()
        self.topic_id = topic_id
        self.position = self.fetched = position
        self.reset = None

    def look_up(self, timestamp: int) -> None:
        """Continue at the offset of a timestamp, which the fetcher looks up."""
        self._change()
        self.position = self.fetched = None
        self.reset = timestamp

    def refetch(self) -> None:
        """Discard records fetched ahead of the position."""
        self.version += 1
        self.completed_fetches.clear()
        self.fetched = self.position

    def _change(self) -> None:
        self.version += 1
        self.completed_fetches.clear()
        self.error = None
        self.retry_at = 0.0
        self.failures = 0
        self.topic_id = ZERO_UUID
        self.refused = False
        self.leader_epoch = NO_EPOCH

    def note_leader(self, leader: Leader) -> None:
        """Note the leader. If it is another one than before, there is no reason to wait for it."""
        if leader != self.leader:
            self.leader = leader
            if self.failures:
                self.failures, self.retry_at = 0, 0.0

    @property
    def lost(self) -> bool:
        """Return whether it has neither a position nor a timestamp to look one up."""
        return self.position is None and self.reset is None

    def fetchable(self, now: float) -> bool:
        """Tell whether a fetch may be sent for it."""
        return (
            not (self.paused or self.held)
            and self.fetched is not None
            and self.error is None
            and len(self.completed_fetches) < FETCHES_AHEAD
            and not (self.completed_fetches and self.completed_fetches[-1].failure)
            and self.retry_at <= now
        )

    def ready(self) -> bool:
        """Tell whether there are records to hand out."""
        return bool(self.completed_fetches) and not (self.paused or self.held)

    @property
    def lag(self) -> int | None:
        """Offsets between the position and the high watermark; None where one of them is unknown."""
        # Another thread may take the position away between two looks.
        position = self.position
        if position is None or self.high_watermark < 0:
            return None
        return max(self.high_watermark - position.offset, 0)


class SubscriptionType(Enum):
    """The way in which a consumer gets its partitions, as in Kafka's SubscriptionState."""

    NONE = auto()
    AUTO_TOPICS = auto()
    AUTO_PATTERN = auto()
    USER_ASSIGNED = auto()


def checked_topics(topics: Iterable[str]) -> list[str]:
    """Return names of topics that a caller gives.

    Raises:
        TypeError: They are one string.
        ValueError: One of them is no name.
    """
    if isinstance(topics, str):
        raise TypeError(f"topics is one string; did you mean [{topics!r}]?")
    named = list(topics)
    if not all(isinstance(topic, str) and topic.strip() for topic in named):
        raise ValueError(f"a topic's name is empty, or no string: {named}")
    return named


class SubscriptionState:
    """A consumer's subscription, and the partitions assigned to it.

    Attributes:
        topics: The topics that the member subscribes to.
        matched: Whether the filter has been applied to the topics of the cluster.
        regex: The regular expression that the coordinator matches. `topics` are then those of the assignment.
        group_topics: The topics that all members subscribe to, where this member leads the group.
    """

    def __init__(self) -> None:
        self.kind = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()
        self.filter: TopicFilter | None = None
        self.matched = False
        self.regex: str | None = None
        self.group_topics: frozenset[str] = frozenset()
        self.partitions: dict[TopicPartition, PartitionState] = {}

    @property
    def grouped(self) -> bool:
        """Return whether a group assigns the partitions."""
        return self.kind in (SubscriptionType.AUTO_TOPICS, SubscriptionType.AUTO_PATTERN)

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self.partitions)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics."""
        self._become(SubscriptionType.AUTO_TOPICS)
        self.topics, self.filter, self.regex = frozenset(topics), None, None

    def subscribe_to(self, pattern: str | re.Pattern[str] | TopicFilter | SubscriptionPattern) -> None:
        """Subscribe to the topics that match a pattern.

        Raises:
            ConfigError: The pattern is invalid.
        """
        if isinstance(pattern, SubscriptionPattern):
            self.subscribe_regex(pattern.pattern)
        else:
            self.subscribe_pattern(pattern if isinstance(pattern, TopicFilter) else TopicFilter.of(pattern))

    def subscribe_pattern(self, wanted: TopicFilter) -> None:
        """Subscribe to the topics that a filter allows. `found` passes it the topics of the cluster."""
        self._become(SubscriptionType.AUTO_PATTERN)
        self.filter, self.regex, self.matched = wanted, None, False

    def subscribe_regex(self, regex: str) -> None:
        """Subscribe to the topics that the coordinator finds to match."""
        self._become(SubscriptionType.AUTO_PATTERN)
        self.filter, self.regex = None, regex
        self.topics = frozenset()

    def found(self, topics: Iterable[str]) -> bool:
        """Apply the filter to the cluster's topics; return whether the subscription has changed."""
        assert self.filter is not None
        self.matched = True
        before, self.topics = self.topics, self.filter.select(topics)
        return before != self.topics

    def _become(self, kind: SubscriptionType) -> None:
        if self.kind is not SubscriptionType.NONE and (self.kind is SubscriptionType.USER_ASSIGNED) is not (
            kind is SubscriptionType.USER_ASSIGNED
        ):
            raise ValueError("topics, a pattern and assigned partitions exclude each other: unsubscribe first")
        if self.kind is not kind:
            self.topics = frozenset()
        self.kind = kind

    def assign_manually(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign these partitions by hand; those that were assigned before keep their positions."""
        self._become(SubscriptionType.USER_ASSIGNED)
        self.assign(partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign these partitions and no others; those that were assigned before keep their states."""
        before = self.partitions
        self.partitions = {tp: before.get(tp) or PartitionState(tp) for tp in partitions}

    def unsubscribe(self) -> None:
        """Subscribe to nothing, and give all partitions up."""
        self.kind = SubscriptionType.NONE
        self.topics = self.group_topics = frozenset()
        self.filter = self.regex = None
        self.partitions = {}

    def wants(self, partitions: Iterable[TopicPartition]) -> bool:
        """Tell whether all topics of an assignment are subscribed to."""
        return self.filter is not None or all(tp.topic in self.topics for tp in partitions)

    def state(self, tp: TopicPartition) -> PartitionState:
        """Return the state of an assigned partition.

        Raises:
            ValueError: The partition is not assigned.
        """
        found = self.partitions.get(tp)
        if found is None:
            raise ValueError(f"partition {TopicPartition(*tp)} is not assigned; assigned are {sorted(self.partitions)}")
        return found

    def consumed(self) -> dict[TopicPartition, FetchPosition]:
        """Return the positions of all partitions that have one."""
        positions = {tp: state.position for tp, state in list(self.partitions.items())}
        return {tp: position for tp, position in positions.items() if position is not None}

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions as offsets to commit."""
        return {tp: OffsetAndMetadata(position.offset, position.epoch) for tp, position in self.consumed().items()}

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no more records of these partitions, which will be given up."""
        for tp in partitions:
            if tp in self.partitions:
                self.partitions[tp].held = True

    def to_end_of_line(self, tp: TopicPartition) -> None:
        """Move a partition to the end of the order, so that the others come first."""
        self.partitions[tp] = self.partitions.pop(tp)

    @property
    def watches_all(self) -> bool:
        """Return whether the metadata of all topics is needed."""
        return self.kind is SubscriptionType.AUTO_PATTERN

    @property
    def watched(self) -> frozenset[str]:
        """The topics whose metadata is needed; a pattern needs that of all topics."""
        return self.topics | self.group_topics | {tp.topic for tp in self.partitions}
