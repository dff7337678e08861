"""A cluster's topics as values, and a group with the log that stores it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from uuid import UUID

from broker.coordinator.group.kip848.config import ConsumerGroupConfig
from broker.coordinator.group.kip848.context import Context, Matched, Outcome, Timer, TimerKind
from broker.coordinator.group.kip848.formats.log_records import GroupRecord, decode_record
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.kip848.member_changes import remove
from broker.coordinator.group.kip848.model import Assignment, TopicMetadata, assignment_of
from broker.coordinator.group.kip848.requests.heartbeat import check_request, heartbeat, is_leaving, leave
from broker.coordinator.group.kip848.topics.topic_regex import matching
from kafkalog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP = "g"


def topic_id(number: int) -> UUID:
    return UUID(int=number + 100)


def owned_by(request: ConsumerGroupHeartbeatRequest) -> Assignment | None:
    """Return the partitions that the sender of a heartbeat claims to own."""
    topics = request.topic_partitions
    return None if topics is None else assignment_of(topics)  # type: ignore[arg-type]


class FakeTopics:
    """Topics `t0`, `t1`, … with given numbers of partitions."""

    def __init__(self, *partitions: int) -> None:
        self.version = 1
        self.by_name: dict[str, TopicMetadata] = {}
        for number, partition_count in enumerate(partitions):
            self.put(f"t{number}", partition_count, number)

    def put(self, name: str, partitions: int, number: int | None = None) -> None:
        """Create a topic, or set its number of partitions."""
        known = self.by_name.get(name)
        found = known.topic_id if known else topic_id(len(self.by_name) if number is None else number)
        self.by_name[name] = TopicMetadata(found, name, partitions)
        self.version += 1

    def existing(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        found = {name: self.get(name) for name in names}
        return {name: topic for name, topic in found.items() if topic is not None}

    def get(self, name: str) -> TopicMetadata | None:
        return self.by_name.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return next((name for name, topic in self.by_name.items() if topic.topic_id == topic_id), None)

    def matching(self, regex: str) -> Matched | None:
        return Matched(frozenset(matching(regex, self.by_name)), self.version)


def wire(assignment: Assignment) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic, partitions=sorted(some)) for topic, some in assignment.items()]


def join(
    member_id: str, *names: str, instance: str | None = None, regex: str | None = None, assignor: str | None = None
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=0,
        instance_id=instance,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=list(names),
        subscribed_topic_regex=regex,
        server_assignor=assignor,
        topic_partitions=[],
    )


def beat(
    member_id: str, epoch: int, owned: Assignment | None = None, instance: str | None = None
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance,
        topic_partitions=None if owned is None else wire(owned),
    )


class Coordinator:
    """One group, its log, its timers, and a clock that the test moves."""

    def __init__(self, topics: FakeTopics, **config: object) -> None:
        self.topics = topics
        self.config = ConsumerGroupConfig(**config)  # type: ignore[arg-type]
        self.group = ConsumerGroup(GROUP)
        self.log: list[list[tuple[bytes, bytes | None]]] = []
        self.timers: dict[tuple[TimerKind, str], Timer] = {}
        self.now_ms = 1_000_000
        self._ids = count(1)

    def context(self) -> Context:
        return Context(self.topics, self.config, self.now_ms, lambda: f"made-{next(self._ids)}", "client", "/127.0.0.1")

    def request(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        """Handle a request and store its records; raise the errors of the protocol."""
        check_request(request, version, self.context())
        if is_leaving(request):
            return self.store(leave(self.group, request, self.context()))
        return self.store(heartbeat(self.group, request, self.context(), owned_by(request)))

    def store(self, outcome: Outcome[ConsumerGroupHeartbeatResponse]) -> ConsumerGroupHeartbeatResponse:
        self.append(outcome.records)
        for timer in outcome.timers:
            if timer.delay_ms is None:
                self.timers.pop((timer.kind, timer.member_id), None)
            else:
                self.timers[timer.kind, timer.member_id] = timer
        if outcome.seen_version is not None:
            self.group.seen_version = outcome.seen_version
        return outcome.response

    def fence(self, member_id: str) -> None:
        """End the member's session."""
        self.append(remove(self.group, [self.group.members[member_id]], self.context()))

    def append(self, records: list[GroupRecord]) -> None:
        if records:
            self.log.append([record.encode() for record in records])
        for record in records:
            self.group.replay(record)

    def reload(self, *, compacted: bool = False) -> ConsumerGroup:
        """Load the group from its log, maybe without the records that a cleaner removes."""
        records = [record for batch in self.log for record in batch]
        if compacted:
            newest = {key: (place, value) for place, (key, value) in enumerate(records)}
            records = [
                (key, value)
                for place, (key, value) in enumerate(records)
                if newest[key][0] == place and value is not None
            ]
        group = ConsumerGroup(GROUP)
        for key, value in records:
            record = decode_record(key, value)
            assert record is not None
            group.replay(record)
        return group
